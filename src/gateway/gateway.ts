/**
 * The edge side: opens the durable core first and the doors last, and closes in exact reverse, so that no door is ever open
 * in front of a core that cannot take anything. Read this file first; every room hangs on it.
 *
 *     store → spool → replayer → tallies → intake → broker → readers → web
 */
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Intake } from '../bridge/intake.js';
import { ReadingMap } from '../bridge/reading-map.js';
import { TallySender } from '../bridge/tally-sender.js';
import { Classes } from '../bridge/when-full.js';
import type { Admit } from '../broker/admit.js';
import { Broker } from '../broker/broker.js';
import type { GatewayConfig } from '../config/gateway-schema.js';
import { type Clock, steadyClock, systemClock } from '../lib/clock.js';
import { Closer } from '../lib/closer.js';
import { type HoldfastError, messageOf } from '../lib/errors.js';
import { makeFolder } from '../lib/folder.js';
import type { Log } from '../lib/log.js';
import { version } from '../lib/version.js';
import type { Millis } from '../model/ids.js';
import type { GatewayStatus } from '../model/status.js';
import { type DamageReport, Spool } from '../spool/spool.js';
import { layoutOf, SPOOL_BYTES_MIN } from '../store/layout.js';
import { Store } from '../store/store.js';
import { GatewayPages } from '../web/gateway-pages.js';
import { metricsRoute } from '../web/metrics.js';
import { WebServer } from '../web/server.js';
import { openAccess } from './access.js';
import { ClockWatch } from './clock-watch.js';
import { damageGaps, gapRow } from './damage-gaps.js';
import { GATEWAY_METRICS } from './metrics.js';
import { openReplayer } from './open-replayer.js';
import { downtimeGaps, loadProtocols, ReaderSet } from './reader-set.js';
import { Salvager } from './salvager.js';
import { SpoolRoom } from './spool-room.js';
import { gatewayStatus } from './status.js';
import { StoredCommands } from './stored-commands.js';
import { Timings } from './timing.js';

/** How long each step of an orderly end may take; together less than what service managers grant before they kill. */
const BROKER_CLOSE_MS = 3_000;
const TALLIES_CLOSE_MS = 1_000;
const REPLAY_CLOSE_MS = 3_000;
/** A message must not need more than this share of the spool, or it might wait for room for ever. */
const PACKET_SHARE_MAX = 1 / 8;
/** A restart shorter than this missed no poll. */
const DOWNTIME_MS_MIN = 1_000;

export class Gateway {
  private readonly closer = new Closer();
  private readonly hurry = new AbortController();
  private reloading: Promise<void> = Promise.resolve();
  private reload_: () => Promise<void> = async () => {};
  private status_: () => Promise<GatewayStatus> = () => Promise.reject(new Error('the gateway is not open'));
  /** MQTT addresses that clients connect to, and the status page's, as they were bound. */
  addresses: { readonly mqtt: readonly string[]; readonly web: string | null } = { mqtt: [], web: null };
  /** Resolves with the error after which nothing is acknowledged any more; the process should end with its exit code. */
  failed: Promise<HoldfastError> = new Promise(() => {});

  private readonly log: Log;

  private constructor(log: Log) {
    this.log = log;
  }

  /** Opens everything, or closes what was opened and throws. A peer that is absent is no error: it is tried for ever. */
  static async open(config: GatewayConfig, log: Log, clock: Clock = systemClock): Promise<Gateway> {
    const gateway = new Gateway(log);
    try {
      await gateway.start(config, log, clock);
      return gateway;
    } catch (error) {
      await gateway.closer.close();
      throw error;
    }
  }

  status(): Promise<GatewayStatus> {
    return this.status_();
  }

  /**
   * Reads anew what may change while it runs: passwords, access rules, certificates. All of it or nothing: what cannot be
   * used is logged with its line, and everything stays as it was. Everything else in the config needs a restart.
   */
  reload(): Promise<void> {
    // One after the other, so that what was read last is what counts.
    this.reloading = this.reloading.then(() => this.reloadNow());
    return this.reloading;
  }

  private async reloadNow(): Promise<void> {
    try {
      await this.reload_();
      this.log.info({}, 'Passwords, access rules and certificates are read anew');
    } catch (error) {
      this.log.error({ cause: messageOf(error) }, 'Nothing is reloaded, what was in use stays');
    }
  }

  /** Ends in order; when `hurry` aborts, the waits for what is in progress are cut short. Nothing durable is lost either way. */
  close(hurry?: AbortSignal): Promise<void> {
    if (hurry?.aborted) this.hurry.abort();
    hurry?.addEventListener('abort', () => this.hurry.abort(), { once: true });
    return this.closer.close();
  }

  private async start(config: GatewayConfig, log: Log, clock: Clock): Promise<void> {
    const startedAt = clock.now();
    const { closer, hurry } = this;
    // Before the spool is touched: a line that is wrong in these files is as good as one in the config.
    const access = await openAccess(config.broker, clock, log);

    const { path, bytesMax, diskFreeMin, whenFull } = config.spool;
    const layout = layoutOf(await affordable(path, bytesMax, log));
    const store = await Store.open({
      path,
      tables: [Spool.tables, Broker.tables, StoredCommands.tables],
      ...layout,
      log,
    });
    if (store.damage)
      log.error({ path, ...store.damage }, 'The spool file was damaged; what can be read of it goes into a new one');
    closer.push('store', () => store.close());
    this.failed = store.failed;
    const spool = await Spool.open(store, clock);
    closer.push('spool', () => spool.close());
    const timings = new Timings(clock);
    const replayer = openReplayer(config, spool, timings, clock, log);
    const classes = new Classes(whenFull, config.spool.classes);
    const readUpTo = () => replayer.readUpTo;
    const { drops } = classes;
    const room = await SpoolRoom.open({ spool, store, path, layout, diskFreeMin, readUpTo, drops, clock, log });
    closer.push('room', () => room.close());
    replayer.start();
    closer.push('replayer', () => replayer.stop(REPLAY_CLOSE_MS, hurry.signal));

    // The other formats are for consumers of their own kind, which know nothing of tallies.
    if (config.upstream.format === 'columns') {
      const tallies = new TallySender({ spool, hasRoom: () => room.hasRoom(false), clock, log });
      tallies.start();
      closer.push('tallies', () =>
        tallies.close(store.state === 'open' && !hurry.signal.aborted ? TALLIES_CLOSE_MS : 0),
      );
    }

    const { topics, readings } = config.bridge;
    const refuses = config.broker.whenFull === 'refuse';
    const { hasRoom } = room;
    const intake = new Intake({ spool, topics, readings: new ReadingMap(readings), classes, hasRoom, refuses });
    closer.push('intake', () => intake.close());

    const sink = { publish: (outgoing: Parameters<Broker['publish']>[0]) => broker.publish(outgoing) };
    await loadProtocols(config.readers, log);
    const memory = await StoredCommands.open(store, clock);
    const readers = new ReaderSet(config.readers, config.gateway.dataDir, sink, memory, clock, log);
    const broker: Broker = await Broker.open({
      store,
      admit: timings.admit(admitting(intake, readers)),
      listeners: config.broker.listeners,
      access,
      limits: {
        packetBytesMax: Math.min(config.broker.packetBytesMax, layout.rowsBytesMax * PACKET_SHARE_MAX),
        connectTimeoutMs: config.broker.connectTimeout,
        pendingMessagesMax: config.broker.clientPendingMax,
        sessionExpiryMaxS: config.broker.sessionExpiryMax / 1000,
        retainedMax: config.broker.retainedMax,
        retainedBytesMax: config.broker.retainedBytesMax,
        retainedTime: config.broker.retainedTime,
        sessionsMax: config.broker.sessionsMax,
        sessionQueueRowsMax: config.broker.sessionQueueMax,
        sessionQueueBytesMax: config.broker.sessionQueueBytesMax,
        sessionQueuePolicy: config.broker.sessionQueuePolicy,
        clientsMax: config.broker.clientsMax,
        clientsPerAddressMax: config.broker.clientsPerAddressMax,
        connectRateMax: config.broker.connectRateMax,
        keepaliveMaxS: config.broker.keepaliveMax / 1000 || Number.POSITIVE_INFINITY,
        clientMessageRateMax: config.broker.clientMessageRateMax || Number.POSITIVE_INFINITY,
        clientByteRateMax: config.broker.clientByteRateMax || Number.POSITIVE_INFINITY,
        topicBytesMax: config.broker.topicBytesMax,
        topicLevelsMax: config.broker.topicLevelsMax,
        strictReceiveMaximum: config.broker.strictReceiveMaximum,
      },
      version,
      sys: async () => {
        const { rows, bytes, oldestAgeMs } = await spool.stats();
        return {
          'holdfast/spool/messages/count': rows,
          'holdfast/spool/messages/bytes': bytes,
          'holdfast/spool/oldest/age': `${Math.floor(oldestAgeMs / 1000)} seconds`,
          [`connection/${config.upstream.clientId}/state`]: replayer.status(rows).state === 'online' ? 1 : 0,
        };
      },
      clock: steadyClock(clock),
      log,
    });
    closer.push('broker', () => broker.close({ budgetMs: BROKER_CLOSE_MS, hurry: hurry.signal }));
    this.reload_ = () => broker.reload();

    const watch = new ClockWatch({
      gateway: config.gateway.id,
      clock,
      log,
      onStep: (gap) => noted(spool.enqueue([gapRow(gap)]), log),
    });
    closer.push('clock', () => watch.close());
    const { aliveAt, closedAt } = spool.previous;
    if ((await spool.stats()).received > 0) {
      watch.compare(aliveAt);
      const now = clock.now();
      // Behind a clock that went back nobody knows how long an end that was not in order has been.
      if (now - aliveAt >= DOWNTIME_MS_MIN || (now < aliveAt && closedAt === null))
        noted(broker.publish(downtimeGaps(config.readers, Math.min(aliveAt, now) as Millis, now)), log);
    }
    const gaps = (report: DamageReport) => damageGaps(report, config.gateway.id, config.readers);
    const salvager = new Salvager({ spool, hasRoom: () => room.isRoomy, gaps, clock, log });
    salvager.start();
    closer.push('salvager', () => salvager.close());
    readers.start();
    closer.push('readers', () => readers.stop(hurry.signal));

    this.status_ = () =>
      gatewayStatus({ config, startedAt, clock, watch, store, spool, room, replayer, intake, broker, readers });
    if (config.web) {
      const pages = await GatewayPages.open({ status: this.status_, log });
      closer.push('pages', () => pages.close());
      const source = async () => ({ status: await this.status_(), timings, diskFreeBytes: room.diskFree });
      const metrics = metricsRoute({ metrics: GATEWAY_METRICS, source, log });
      const routes = { ...pages.routes, ...metrics };
      const web = await WebServer.open({ listen: config.web.listen, routes, log });
      closer.push('web', () => web.close());
      this.addresses = { mqtt: broker.addresses, web: web.url };
    } else {
      this.addresses = { mqtt: broker.addresses, web: null };
    }
    log.info(
      { gateway: config.gateway.id, epoch: spool.epoch, sqlite: sqliteInWords(store), ...this.addresses },
      'The gateway is open',
    );
  }
}

/** A start does not wait for its gap records: on a full device they wait for room like everything else. */
function noted(gaps: Promise<unknown>, log: Log): void {
  gaps.catch((error) => log.warn({ cause: messageOf(error) }, 'Gap records of this start could not be written yet'));
}

/** The ceiling, or the whole device where that is smaller: what is kept aside is measured by it. */
async function affordable(path: string, bytesMax: number, log: Log): Promise<number> {
  const folder = dirname(path);
  makeFolder(folder);
  const { blocks, bsize } = await statfs(folder);
  if (blocks * bsize >= bytesMax) return bytesMax;
  log.warn({ path, bytesMax, deviceBytes: blocks * bsize }, 'spool.bytesMax is more than the device has');
  return Math.max(SPOOL_BYTES_MIN, blocks * bsize);
}

/** The intake, and behind it the readers: a command is carried out only once it is durable and will be acknowledged. */
function admitting(intake: Intake, readers: ReaderSet): Admit {
  if (!readers.takesCommands) return (...message) => intake.admit(...message);
  return (message, identity, operations, done) =>
    intake.admit(message, identity, operations, (error, results, at) => {
      done(error, results, at);
      if (!error && message.sender !== null) readers.offer(message);
    });
}

/** What the build means on cards and eMMC, where a cut write can destroy the whole block it lies in. */
function sqliteInWords({ sqlite, trustsPowersafeOverwrite }: Store): string {
  return trustsPowersafeOverwrite
    ? `${sqlite}, POWERSAFE_OVERWRITE=1: on a device that tears whole blocks a power cut can cost the last commit before it`
    : `${sqlite}, POWERSAFE_OVERWRITE=0: commits share no block, as SD cards and eMMC need`;
}
