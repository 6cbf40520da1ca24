import type { StatusCode } from 'node-opcua-client';
import { BAD, GOOD, type Quality, UNCERTAIN } from '../../model/reading.js';
import {
  BAD_COMM_FAILURE,
  BAD_CONFIG,
  BAD_DEVICE_FAILURE,
  BAD_NOT_CONNECTED,
  BAD_SENSOR_FAILURE,
  UNCERTAIN_RANGE,
} from '../quality.js';

/** The two top bits of a status code [OPC 10000-4, 7.39.1]. */
const SEVERITY_SHIFT = 30;
const SEVERITY_UNCERTAIN = 1;

/**
 * The OPC DA quality of a status code [OPC 10000-8, A.3.2.3]: the severity always, and the sub-status where DA has the same.
 */
export function qualityOf(status: StatusCode): Quality {
  const severity = status.value >>> SEVERITY_SHIFT;
  const known = SUB_STATUS[nameOf(status)];
  if (known !== undefined) return known;
  if (severity === 0) return GOOD;
  return severity === SEVERITY_UNCERTAIN ? UNCERTAIN : BAD;
}

export const isBad = (status: StatusCode): boolean => status.value >>> SEVERITY_SHIFT > SEVERITY_UNCERTAIN;

/** `BadNodeIdUnknown`, without the flags that a name may be followed by. */
export const nameOf = (status: StatusCode): string => status.name.split('#')[0] as string;

const SUB_STATUS: Readonly<Record<string, Quality>> = {
  GoodLocalOverride: 216,
  UncertainLastUsableValue: 68,
  UncertainSensorNotAccurate: 80,
  UncertainEngineeringUnitsExceeded: UNCERTAIN_RANGE,
  UncertainSubNormal: 88,
  BadConfigurationError: BAD_CONFIG,
  BadNodeIdUnknown: BAD_CONFIG,
  BadNodeIdInvalid: BAD_CONFIG,
  BadAttributeIdInvalid: BAD_CONFIG,
  BadNotReadable: BAD_CONFIG,
  BadUserAccessDenied: BAD_CONFIG,
  BadNotConnected: BAD_NOT_CONNECTED,
  BadDeviceFailure: BAD_DEVICE_FAILURE,
  BadSensorFailure: BAD_SENSOR_FAILURE,
  BadNoCommunication: BAD_COMM_FAILURE,
  BadCommunicationError: BAD_COMM_FAILURE,
  BadOutOfService: 28,
  BadWaitingForInitialData: 32,
};
