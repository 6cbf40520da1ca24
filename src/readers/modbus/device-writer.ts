import { messageOf } from '../../lib/errors.js';
import type { DriverContext, WriteResult } from '../driver.js';
import { READ_FUNCTION } from './address.js';
import { causeOf, exceptionCodeOf } from './device-error.js';
import type { Link } from './link.js';
import type { DeviceLimits } from './options.js';
import { blockOf } from './plan.js';
import type { WriteRequest } from './requests.js';
import type { Tag } from './tag.js';
import { writeRequestOf } from './write-request.js';

/**
 * Writes to one unit. A write is sent once and never again on its own: after a timeout nobody knows whether it was carried
 * out, and a second one may start a machine twice. The outcome is then `unknown`, and what the device has is read back.
 */
export class DeviceWriter {
  private readonly unit: number;
  private readonly limits: DeviceLimits;
  private readonly link: Link;
  private readonly context: DriverContext;

  constructor(unit: number, limits: DeviceLimits, link: Link, context: DriverContext) {
    this.unit = unit;
    this.limits = limits;
    this.link = link;
    this.context = context;
  }

  /** Never rejects. `mayStart` is asked at the last moment before it is sent. */
  async write(tag: Tag, value: unknown, mayStart: () => boolean): Promise<WriteResult> {
    let request: WriteRequest;
    try {
      request = writeRequestOf(tag, this.unit, value, this.limits);
    } catch (error) {
      return { outcome: 'rejected', code: 'value', detail: `${tag.name} ${messageOf(error)}` };
    }
    if (!this.link.gate.isOpen) return { outcome: 'rejected', code: 'not-connected' };
    let sent = false;
    const start = () => {
      sent = mayStart();
      return sent;
    };
    try {
      const { data } = await this.link.write(request, start);
      const readBack = request.fc === 23 ? tag.sample(data, tag) : await this.readBack(tag);
      return { outcome: 'done', ...(readBack ? { readBack } : {}) };
    } catch (error) {
      if (!sent) return mayStart() ? { outcome: 'rejected', code: causeOf(error) } : { outcome: 'expired' };
      if (exceptionCodeOf(error) !== undefined) return { outcome: 'rejected', code: causeOf(error) };
      const readBack = await this.readBack(tag);
      return { outcome: 'unknown', code: causeOf(error), ...(readBack ? { readBack } : {}) };
    }
  }

  private async readBack(tag: Tag): Promise<WriteResult['readBack']> {
    const block = blockOf([tag], this.limits);
    const { table, address, quantity } = block;
    try {
      const { data } = await this.link.read({ fc: READ_FUNCTION[table], unit: this.unit, address, quantity });
      return tag.sample(data, block);
    } catch (error) {
      this.context.log.debug({ tag: tag.name, cause: causeOf(error) }, 'What was written could not be read back');
      return undefined;
    }
  }
}
