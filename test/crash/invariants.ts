/** What must hold on every disk that a power cut can leave, for everything that was promised before it. */
import { idOf, type Ledger, OWN_TOPICS, type PromisedSession } from './ledger.js';
import type { Found, StartUp } from './start-up.js';

export type Breach =
  /** The spool does not open, or SQLite finds it damaged. */
  | 'unreadable'
  /** A message was acknowledged, is not in the spool, and the cloud has not acknowledged it. */
  | 'acknowledged message lost'
  /** A row that nobody published, or with other bytes. */
  | 'foreign row'
  /** The next row would get, or a row has, a seq under which the cloud knows another message. */
  | 'seq reused'
  /** A QoS 2 message would reach the cloud twice. */
  | 'stored twice'
  | 'totals disagree'
  | 'retained message lost'
  | 'session lost'
  | 'queued message lost'
  /** A QoS 2 packet id is forgotten too early, or remembered after it has been released. */
  | 'packet id wrong'
  /** Broken on the wire already, whatever the disk says. */
  | 'wire';

export type Breaches = Map<Breach, string>;

/** One example of each breach. */
export function breachesOf(found: StartUp, ledger: Ledger): Breaches {
  const breaches: Breaches = new Map();
  const breach = (what: Breach, example: string) => {
    if (!breaches.has(what)) breaches.set(what, example);
  };
  for (const example of ledger.broken) breach('wire', example);
  if ('broken' in found) {
    breach('unreadable', found.broken);
    return breaches;
  }
  checkRows(found, ledger, breach);
  checkTotals(found, breach);
  checkRetained(found, ledger, breach);
  for (const [clientId, session] of ledger.sessions) checkSession(found, ledger, clientId, session, breach);
  return breaches;
}

type Note = (what: Breach, example: string) => void;

function checkRows({ rows, tail, totals }: Found, ledger: Ledger, breach: Note): void {
  const spooled = new Map<number, number>();
  for (const { seq, topic, payload } of rows) {
    if (topic.startsWith(OWN_TOPICS)) continue;
    const id = idOf(payload);
    const published = id === null ? undefined : ledger.published.get(id);
    if (!published || published.topic !== topic || published.payload !== payload) {
      breach('foreign row', `seq ${seq}: ${topic} ${payload.slice(0, 60)}`);
      continue;
    }
    const sent = ledger.sentAs.get(seq);
    if (sent !== undefined && sent !== id) breach('seq reused', `${seq} is ${id}, the cloud has ${sent}`);
    const other = spooled.get(published.id);
    if (published.qos === 2 && other !== undefined) breach('stored twice', `${id} is seq ${other} and ${seq}`);
    spooled.set(published.id, seq);
  }
  for (const id of ledger.acknowledged)
    if (!spooled.has(id) && !ledger.delivered.has(id)) breach('acknowledged message lost', `${id}`);
  if (ledger.epoch !== null && totals.epoch !== ledger.epoch) breach('seq reused', 'the epoch is another one');
  const given = Math.max(ledger.acknowledged.size, ...ledger.sentAs.keys());
  if (tail < given) breach('seq reused', `the next seq is ${tail + 1}, and ${given} has been given`);
  checkSentOnce(spooled, ledger, breach);
}

function checkSentOnce(spooled: ReadonlyMap<number, number>, ledger: Ledger, breach: Note): void {
  const firstSeq = new Map<number, number>();
  for (const [seq, id] of ledger.sentAs) {
    if (ledger.published.get(id)?.qos !== 2) continue;
    const other = firstSeq.get(id) ?? spooled.get(id) ?? seq;
    if (other !== seq) breach('stored twice', `${id} is seq ${other} and ${seq}`);
    firstSeq.set(id, seq);
  }
}

function checkTotals({ totals, counted, tail }: Found, breach: Note): void {
  const { rows, bytes, received, acknowledged, dead } = totals;
  if (rows !== counted.rows || bytes !== counted.bytes)
    breach('totals disagree', `${rows} rows of ${bytes} bytes; there are ${counted.rows} of ${counted.bytes}`);
  if (received !== rows + acknowledged + dead) breach('totals disagree', JSON.stringify(totals));
  if (received !== tail) breach('totals disagree', `${received} received, ${tail} is the highest seq`);
}

function checkRetained({ retained }: Found, ledger: Ledger, breach: Note): void {
  for (const [topic, { values, promised }] of ledger.retained) {
    const payload = retained.get(topic);
    const value = payload === undefined ? null : idOf(payload);
    const held = values.lastIndexOf(value);
    if (held < promised) breach('retained message lost', `${topic}: ${value}, promised was ${values[promised]}`);
  }
}

function checkSession(
  { sessions, subscriptions, outgoing, incoming }: Found,
  ledger: Ledger,
  clientId: string,
  session: PromisedSession,
  breach: Note,
): void {
  if (!session.present) return;
  const key = sessions.get(clientId);
  if (key === undefined) {
    breach('session lost', clientId);
    return;
  }
  for (const filter of session.filters)
    if (!subscriptions.has(`${key} ${filter}`)) breach('session lost', `${clientId} ${filter}`);
  for (const id of session.owed)
    if (!outgoing.has(`${key} ${ledger.published.get(id)?.payload}`))
      breach('queued message lost', `${clientId} ${id}`);
  if (session.received.size > 0 && !outgoing.has(`${key}`)) {
    const anyPayload = [...session.received].some((id) => outgoing.has(`${key} ${ledger.published.get(id)?.payload}`));
    if (!anyPayload) breach('queued message lost', `${clientId} ${[...session.received]} before PUBCOMP`);
  }
  for (const packetId of session.halfOpen)
    if (!incoming.has(`${key} ${packetId}`)) breach('packet id wrong', `${clientId} ${packetId} is forgotten`);
  for (const packetId of session.free)
    if (incoming.has(`${key} ${packetId}`)) breach('packet id wrong', `${clientId} ${packetId} is remembered`);
}
