import assert from 'node:assert/strict';
import { test } from 'node:test';
import { complaints, configFile } from '../helpers/config-file.js';

const withTopic = (topic: string) => `ingest: { id: i }\nsource: { url: "mqtt://192.0.2.1", topic: "${topic}" }\n`;

for (const topic of ['edge/+/batch', '$share/historian/edge/+/batch', '$share/a-b/#'])
  test(`an ingest may subscribe to ${topic}`, (t) => {
    assert.deepEqual(complaints(configFile(t, withTopic(topic), 'ingest.yaml')), []);
  });

for (const [topic, said] of [
  ['$share//edge/+/batch', 'expected $share/GROUP/FILTER'],
  ['$share/+/edge/+/batch', 'expected $share/GROUP/FILTER'],
  ['$share/g/', 'expected $share/GROUP/FILTER'],
  ['$share/g', 'expected $share/GROUP/FILTER'],
  ['$share/g/$SYS/#', 'must not begin with $'],
  ['$share/g/edge/#/batch', '# must be the last level'],
  ['$SYS/#', 'must not begin with $'],
] as const)
  test(`an ingest may not subscribe to ${topic}`, (t) => {
    const [complaint = ''] = complaints(configFile(t, withTopic(topic), 'ingest.yaml'));
    assert.ok(complaint.includes(said), complaint);
  });
