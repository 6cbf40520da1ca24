/** Defect: PUBACK leaves while the commit is on its way. */
import { answerEarly } from './early.js';

answerEarly((unit) => unit.length > 0 && !unit.some(({ guard }) => guard));
