import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HoldfastError } from '../../src/lib/errors.js';
import { formatAddress, isLoopback, isUnforgeableHost, parseListenAddress } from '../../src/web/listen-address.js';

test('addresses to listen on are read and written back', () => {
  for (const text of ['127.0.0.1:8080', '[::1]:0', '0.0.0.0:65535', 'plc-gw.local:80'])
    assert.equal(formatAddress(parseListenAddress(text)), text);
});

test('what is not host and port is refused with a hint', () => {
  for (const text of ['', '8080', ':8080', '127.0.0.1', '127.0.0.1:', '127.0.0.1:70000', '::1:8080', '[x]:1', 'a b:1'])
    assert.throws(
      () => parseListenAddress(text),
      (error) => error instanceof HoldfastError && error.code === 'config.invalid' && error.hint !== undefined,
      text,
    );
});

test('loopback is known in all its spellings', () => {
  for (const host of ['127.0.0.1', '127.8.0.1', '::1', 'localhost']) assert.ok(isLoopback(host), host);
  for (const host of ['0.0.0.0', '::', '192.0.2.1', '127.example']) assert.ok(!isLoopback(host), host);
});

test('a host name that a web site can point at us is told from one that it cannot', () => {
  for (const host of ['127.0.0.1:8080', '[::1]:8080', 'localhost:8080', 'localhost', '192.0.2.4'])
    assert.ok(isUnforgeableHost(host), host);
  for (const host of [undefined, '', 'evil.example:8080', '127.0.0.1.evil.example', 'localhost.evil.example'])
    assert.ok(!isUnforgeableHost(host), host);
});
