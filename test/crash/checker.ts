/**
 * Cuts the power after every recorded event: builds disks that could be left, starts the product on each, and compares
 * what it finds with what had been promised by then.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../helpers/random.js';
import { Disk, type DiskOptions, type Image } from './disk.js';
import { type Breach, breachesOf } from './invariants.js';
import { Ledger } from './ledger.js';
import { type RecordedEvent, readRecording } from './recording.js';
import { type StartUp, startOn } from './start-up.js';
import { FATES, type Fate, imageAfter } from './survival.js';

export interface CheckOptions extends DiskOptions {
  readonly seed: number;
  /** About so many disks besides those on which all or nothing survived, which are looked at for every cut. */
  readonly images: number;
}

export interface Finding {
  count: number;
  /** The first one: number of the event, what became of the writes, and an example. */
  readonly first: string;
}

export interface Report {
  /** Moments at which the power was cut, and different disks on which the product was started. */
  cuts: number;
  images: number;
  readonly breaches: Map<Breach, Finding>;
  readonly acknowledged: number;
  readonly delivered: number;
}

const RANDOM_FATES = FATES.filter((fate) => fate !== 'dropped' && fate !== 'kept');
/** Where in the recorded folder the spool lies. */
const SPOOL = 'data/spool.db';
const KNOWN_MAX = 200;
/** In memory if there is such a folder: the images need no disk. */
const scratch = () => {
  try {
    return mkdtempSync('/dev/shm/holdfast-cut-');
  } catch {
    return mkdtempSync(join(tmpdir(), 'holdfast-cut-'));
  }
};

export class Checker {
  readonly ledger = new Ledger();
  private readonly options: CheckOptions;
  private readonly random: Random;
  /** What was found on the disks looked at last; promises change more often than the disk, and fates often agree. */
  private readonly known = new Map<string, StartUp>();
  private readonly certain = new Map<Fate, { version: number; found: StartUp }>();
  private readonly report: Report;
  private disk: Disk;
  private folder = '';

  constructor(options: CheckOptions) {
    this.options = options;
    this.random = new Random(options.seed);
    this.disk = new Disk(options);
    const { acknowledged, delivered } = this.ledger;
    this.report = {
      cuts: 0,
      images: 0,
      breaches: new Map(),
      get acknowledged() {
        return acknowledged.size;
      },
      get delivered() {
        return delivered.size;
      },
    };
  }

  /**
   * Checks one record; what an earlier one promised still holds. `content` is what the disk held when it began, and `part`
   * how much of the record happened before the last cut.
   */
  check(recording: string, content?: Image, part = 1): Report {
    const all = readRecording(recording);
    const events = all.slice(0, Math.ceil(all.length * part));
    const { images } = this.options;
    if (content) this.disk = new Disk(this.options, content);
    this.certain.clear();
    this.folder = scratch();
    try {
      const share = images / Math.max(1, events.filter(({ kind }) => kind === 'write').length);
      let due = 0;
      for (const [at, event] of events.entries()) {
        const before = this.disk.version + this.disk.safeVersion;
        const promised = this.ledger.version;
        this.step(event);
        const changed = this.disk.version + this.disk.safeVersion !== before;
        if (!changed && this.ledger.version === promised) continue;
        this.report.cuts++;
        this.cut(at, 'dropped');
        if (!this.disk.isDirty) continue;
        this.cut(at, 'kept');
        if (!changed) continue;
        due += share;
        for (; due >= 1; due--) this.cut(at, this.random.pick(RANDOM_FATES));
      }
      return this.report;
    } finally {
      rmSync(this.folder, { recursive: true });
    }
  }

  /** One disk that the last cut could leave. */
  leftBy(fate: Fate): Image {
    return imageAfter(this.disk, fate, this.random);
  }

  private step(event: RecordedEvent): void {
    this.disk.step(event);
    if (!('path' in event)) this.ledger.step(event);
  }

  private cut(at: number, fate: Fate): void {
    for (const [breach, example] of breachesOf(this.startUp(fate), this.ledger)) {
      const finding = this.report.breaches.get(breach) ?? { count: 0, first: `event ${at}, ${fate}: ${example}` };
      finding.count++;
      this.report.breaches.set(breach, finding);
    }
  }

  private startUp(fate: Fate): StartUp {
    if (fate !== 'dropped' && fate !== 'kept') return this.start(imageAfter(this.disk, fate, this.random));
    const version = fate === 'dropped' ? this.disk.safeVersion : this.disk.version;
    let certain = this.certain.get(fate);
    if (certain?.version !== version) {
      certain = { version, found: this.start(imageAfter(this.disk, fate, this.random)) };
      this.certain.set(fate, certain);
    }
    return certain.found;
  }

  private start(image: Image): StartUp {
    const key = fingerprint(image);
    let found = this.known.get(key);
    if (!found) {
      this.report.images++;
      found = startOn(image, this.folder, SPOOL);
      this.known.set(key, found);
      if (this.known.size > KNOWN_MAX) this.known.delete(this.known.keys().next().value as string);
    }
    return found;
  }
}

function fingerprint(image: Image): string {
  const hash = createHash('sha1');
  for (const [name, bytes] of image) hash.update(`${name} ${bytes.length} `).update(bytes);
  return hash.digest('base64');
}
