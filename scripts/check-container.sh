#!/usr/bin/env bash
# Builds the Dockerfile and runs what comes out, on a machine without a container engine: buildah builds, a stand-in made of
# Debian and this machine's own Node takes the place of the Node image, namespaces take the place of the runtime.
#
#   scripts/check-container.sh [FOLDER]     as root; FOLDER keeps the build cache for the next run
#
# Needs Debian's buildah, mmdebstrap and iproute2; ends with 0 and a message when one is absent.
set -euo pipefail
keep=${1:+$(realpath -m "$1")}
cd "$(dirname "$0")/.."

for program in buildah mmdebstrap ip unshare setpriv; do
  command -v "$program" >/dev/null || { echo "container check skipped: $program is not installed"; exit 0; }
done
[[ $(id -u) == 0 ]] || { echo 'container check skipped: it needs root'; exit 0; }

step() { printf '%5ss  %s\n' "$SECONDS" "$*"; }
fail() { echo "container check failed: $*" >&2; exit 1; }

work=${keep:-$(mktemp -d)}
mkdir -p "$work"
export BUILDAH_ISOLATION=chroot
buildah_() { buildah --root "$work/store" --runroot "$work/run" "$@"; }
log=$work/log
# A failure shows the end of the last log.
tidy() {
  local status=$?
  if [[ $status != 0 && -s $log ]]; then tail -n 60 "$log" >&2; fi
  buildah_ rm --all >/dev/null 2>&1 || true
  if [[ -z $keep ]]; then rm -rf "$work"; fi
  exit "$status"
}
trap tidy EXIT

# The stand-in for the Node image. It trusts the certificates that this machine trusts, which never reach the product.
if ! buildah_ inspect --type image localhost/holdfast-node >/dev/null 2>&1; then
  step 'making a stand-in for the Node image'
  mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar" >"$log" 2>&1
  container=$(buildah_ from scratch)
  {
    buildah_ add "$container" "$work/base.tar" /
    root=$(buildah_ mount "$container")
    npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
    mkdir -p "$root/usr/include" "$root/usr/lib/node_modules"
    cp "$(readlink -f "$(command -v node)")" "$root/usr/bin/node"
    cp -r "$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")/include/node" "$root/usr/include/node"
    cp -r "$npm" "$root/usr/lib/node_modules/npm"
    ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/bin/npm"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    buildah_ config --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt "$container"
    buildah_ commit --rm "$container" localhost/holdfast-node
  } >"$log" 2>&1
  rm "$work/base.tar"
fi

step 'building the image; SQLite takes a few minutes to compile'
# --format docker: the other format has no health check.
buildah_ bud --layers --format docker --pull-never --network host \
  --build-arg NODE_IMAGE=localhost/holdfast-node -t localhost/holdfast:check . >"$log" 2>&1

step 'reading its configuration'
buildah_ inspect --type image localhost/holdfast:check >"$work/image.json"
node --input-type=module - "$work/image.json" >"$work/commands.sh" <<'JS'
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
const { config } = JSON.parse(readFileSync(process.argv[2], 'utf8')).Docker;
assert.equal(config.User, '10001:10001');
assert.equal(config.StopSignal, 'SIGTERM');
assert.deepEqual(Object.keys(config.Volumes), ['/var/lib/holdfast']);
const [kind, ...health] = config.Healthcheck.Test;
assert.equal(kind, 'CMD');
const words = (list) => `(${list.map((word) => `'${word}'`).join(' ')})`;
console.log(`workdir='${config.WorkingDir}'`);
console.log(`start=${words([...config.Entrypoint, ...config.Cmd])}`);
console.log(`health=${words(health)}`);
JS
. "$work/commands.sh"

container=$(buildah_ from --pull-never localhost/holdfast:check)
root=$(buildah_ mount "$container")

step 'looking at what is in it'
for path in package.json LICENSE config/gateway.yaml dist/src/web/page/page.js node_modules/better-sqlite3/build/Release/better_sqlite3.node; do
  [[ -e $root$workdir/$path ]] || fail "$path is not in the image"
done
for path in src test dist/test scripts node_modules/{typescript,esbuild,@biomejs/biome,playwright-core}; do
  [[ ! -e $root$workdir/$path ]] || fail "$path is in the image"
done
du -sh "$root$workdir" | sed 's/^/        /'

step 'running it: read-only root, no privileges, a network of its own'
data=$work/data
rm -rf "$data" && mkdir "$data" && chown 10001:10001 "$data"
cat >"$work/gateway.yaml" <<'YAML'
gateway: { id: line-1, dataDir: /var/lib/holdfast }
broker: { listeners: [{ url: "mqtt://0.0.0.0:1883", anonymous: true }] }
bridge: { topics: ["plant/#"] }
upstream: { url: "mqtt://127.0.0.1:1884", backoff: { min: 1s, max: 1s } }
web: { listen: "0.0.0.0:8080" }
YAML
export root workdir data work
declare -fx fail
unshare --mount --net --pid --fork --propagation private bash -euo pipefail -s -- "$work/commands.sh" <<'INSIDE'
. "$1"
ip link set lo up
mount --bind "$root" "$root"
mkdir -p "$root/etc/holdfast" && cp "$work/gateway.yaml" "$root/etc/holdfast/gateway.yaml"
mount --bind "$data" "$root/var/lib/holdfast"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,ro,bind "$root"
chroot "$root" touch /var/tmp/x 2>/dev/null && fail 'the root is writable'

# An array, not a function: what runs in the background is then the program itself, and the signal reaches it.
in_image=(setpriv --no-new-privs chroot --userspec=10001:10001 --groups= "$root"
  env -i -C "$workdir" PATH=/usr/local/bin:/usr/bin:/bin NODE_ENV=production)
begin() {
  "${in_image[@]}" "${start[@]}" >"$work/gateway.log" 2>&1 &
  for _ in {1..50}; do
    if "${in_image[@]}" "${health[@]}" >/dev/null; then return; fi
    kill -0 $! 2>/dev/null || break
    sleep 0.2
  done
  cat "$work/gateway.log" >&2
  fail 'the gateway did not become healthy'
}
end() {
  kill -TERM $!
  wait $! || fail "the gateway ended with $? on SIGTERM"
  if "${in_image[@]}" "${health[@]}" >/dev/null; then fail 'an absent gateway is called healthy'; fi
}
spooled() {
  "${in_image[@]}" node -e "fetch('http://127.0.0.1:8080/status').then((r) => r.json()).then((s) => console.log(s.spool.rows))"
}

begin
[[ $(stat -c %u "$root/proc/$!") == 10001 ]] || fail 'the gateway does not run as 10001'
"${in_image[@]}" node --input-type=module -e "
  import { connectAsync } from 'mqtt';
  const client = await connectAsync('mqtt://127.0.0.1:1883');
  for (let i = 0; i < 20; i++) await client.publishAsync('plant/filler/temperature', JSON.stringify({ ts: Date.now(), value: i }), { qos: 1 });
  await client.endAsync();"
[[ $(spooled) == 20 ]] || fail "the spool holds $(spooled) rows instead of 20"
end
begin
[[ $(spooled) == 20 ]] || fail "after a restart the spool holds $(spooled) rows instead of 20"
end
INSIDE
[[ -s $data/spool.db && $(stat -c %u "$data/spool.db") == 10001 ]] || fail 'the spool is not in the volume'
step 'ok: built, uid 10001, read-only root, healthy, 20 messages kept in the volume across a restart'
