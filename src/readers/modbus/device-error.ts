import { HoldfastError, systemCodeOf } from '../../lib/errors.js';
import type { Quality } from '../../model/reading.js';
import { BAD_COMM_FAILURE, BAD_CONFIG, BAD_DEVICE_FAILURE } from '../quality.js';

/** The exception codes that are treated each in their own way [Modbus Application Protocol 1.1b3, 7]. */
const ILLEGAL_FUNCTION = 1;
const ILLEGAL_ADDRESS = 2;
const ILLEGAL_VALUE = 3;
const DEVICE_FAILURE = 4;
const ACKNOWLEDGE = 5;
const BUSY = 6;
const GATEWAY_NO_PATH = 10;
const GATEWAY_NO_ANSWER = 11;

/** Whether it is about the device or its link. Everything else is a fault of this program and must not pass for one. */
export function isDeviceError(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.code.startsWith('device.');
}

/** The code of a `device.exception`; undefined for every other error. */
export function exceptionCodeOf(error: unknown): number | undefined {
  const code = error instanceof HoldfastError && error.code === 'device.exception' ? error.values.code : undefined;
  return typeof code === 'number' ? code : undefined;
}

/** The device will say the same to the same question. */
export const isRefusal = (code: number | undefined): boolean =>
  code === ILLEGAL_FUNCTION || code === ILLEGAL_ADDRESS || code === ILLEGAL_VALUE;

/** The refusal may be about a part of the range only. Some devices answer a hole with "illegal value". */
export const isAboutRange = (code: number | undefined): boolean => code === ILLEGAL_ADDRESS || code === ILLEGAL_VALUE;

/** The device wants to be asked again, a little later. */
export const isBusy = (code: number | undefined): boolean => code === ACKNOWLEDGE || code === BUSY;

/** It is the gateway that answers, and it cannot reach the unit. The link is healthy, the unit is down. */
export const isUnitDown = (code: number | undefined): boolean => code === GATEWAY_NO_PATH || code === GATEWAY_NO_ANSWER;

export function qualityOfException(code: number): Quality {
  if (isRefusal(code)) return BAD_CONFIG;
  return code === DEVICE_FAILURE ? BAD_DEVICE_FAILURE : BAD_COMM_FAILURE;
}

/**
 * A stable word for an error, for states and logs: `exception-2`, `device.timeout`, or the system's own where there is one,
 * since ECONNREFUSED and EHOSTUNREACH send a technician to different places.
 */
export function causeOf(error: unknown): string {
  const code = exceptionCodeOf(error);
  if (code !== undefined) return `exception-${code}`;
  return error instanceof HoldfastError ? (systemCodeOf(error.cause) ?? error.code) : 'internal';
}
