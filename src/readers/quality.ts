import type { Quality } from '../model/reading.js';

/** OPC DA sub-status codes of a bad quality, as historians and HMIs know them [OPC DA 3.00, 6.8]. */

/** The device refuses the address or the function: the configuration asks for something it does not have. */
export const BAD_CONFIG: Quality = 4;
/** There is no connection to the device. */
export const BAD_NOT_CONNECTED: Quality = 8;
/** The device answers that it has failed. */
export const BAD_DEVICE_FAILURE: Quality = 12;
/** The device answers, but what it gives is no value: NaN or an infinity. */
export const BAD_SENSOR_FAILURE: Quality = 16;
/** The connection stands, and the device behind it does not answer, or answers rubbish. */
export const BAD_COMM_FAILURE: Quality = 24;
/** The value is beyond the range that it was configured to have. */
export const UNCERTAIN_RANGE: Quality = 84;
/** There is a value, and what it means is not known. */
export const UNCERTAIN_VALUE: Quality = 64;
