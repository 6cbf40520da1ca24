# Holdfast, gateway or ingest:
#
#   docker build -t holdfast .
#   docker run --read-only --tmpfs /tmp -v holdfast:/var/lib/holdfast -v ./gateway.yaml:/etc/holdfast/gateway.yaml:ro \
#     -p 1883:1883 holdfast
#
# In the config: gateway.dataDir: /var/lib/holdfast, or the spool dies with the container; listeners on 0.0.0.0, or no
# port of theirs can be published; web.listen on port 8080, which the health check asks.
#
# The ingest: `docker run … -e HOLDFAST_HEALTH_URL=http://127.0.0.1:8081 holdfast ingest --config /etc/holdfast/ingest.yaml`.
ARG NODE_IMAGE=node:20-bookworm-slim
# 0: no two commits share a block, so that a write which is cut and takes its whole block along (SD cards, eMMC) costs no
# commit that was acknowledged; about 4 KiB more per commit. 1: what SQLite does by default, for devices that keep
# neighbouring bytes. The start-up line and the status say which one runs.
ARG POWERSAFE_OVERWRITE=0

FROM ${NODE_IMAGE} AS build
ARG POWERSAFE_OVERWRITE
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 make g++ \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/holdfast
COPY package.json package-lock.json ./
# SQLite is compiled from the source whose hash is in package-lock.json, against the headers that came with this Node:
# a build then needs the npm registry and Debian, nothing else, and trusts no binary that was made elsewhere.
RUN CFLAGS="-DSQLITE_POWERSAFE_OVERWRITE=${POWERSAFE_OVERWRITE}" npm_config_build_from_source=true npm_config_nodedir="$(dirname "$(dirname "$(command -v node)")")" \
    npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts scripts
COPY src src
# What only a compiler needs goes: development packages, SQLite's sources and object files.
RUN npm run build \
 && npm prune --omit=dev --no-audit --no-fund \
 && cd node_modules/better-sqlite3 \
 && find build -type f ! -name better_sqlite3.node -delete \
 && rm -rf deps src

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="holdfast" \
      org.opencontainers.image.description="MQTT edge bridge that never acknowledges a reading before it is on disk" \
      org.opencontainers.image.licenses="MIT"
ENV NODE_ENV=production
WORKDIR /opt/holdfast
COPY --from=build /opt/holdfast/node_modules node_modules
COPY --from=build /opt/holdfast/dist dist
COPY package.json LICENSE ./
COPY config config
# A new named volume takes over owner and mode of this folder; a folder of the host must belong to 10001 beforehand.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/holdfast
VOLUME /var/lib/holdfast
# A number, so that a cluster can see that it is not root. Nothing outside the volume is written.
USER 10001:10001
EXPOSE 1883 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
  CMD ["node", "/opt/holdfast/dist/src/main.js", "health"]
ENTRYPOINT ["node", "/opt/holdfast/dist/src/main.js"]
CMD ["gateway", "--config", "/etc/holdfast/gateway.yaml"]
