/** Defect: PUBREC leaves while the commit is on its way; QoS 1 is in order. */
import { answerEarly } from './early.js';

answerEarly((unit) => unit.some(({ guard }) => guard));
