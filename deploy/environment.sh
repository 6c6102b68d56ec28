#!/usr/bin/env bash
# environment.sh FOLDER [PYTHON]: everything that development needs, in a virtual environment.
# Refuses before it makes anything; replaces an environment of another Python; is quick if nothing
# has changed.
set -euo pipefail

venv=$1
wanted=${2:-}
ready="$venv/.ready"
log="$venv/install.log"

# Prints the version and the own path of a Python that is new enough, else nothing.
usable() {
  "$1" -c 'import sys
if sys.version_info >= (3, 11): print("%d.%d" % sys.version_info[:2], sys.base_prefix)' 2>/dev/null || true
}

choose() {
  local name
  for name in ${wanted:-python3 python3.12 python3.11 python3.13 python}; do
    if [ -n "$(usable "$name")" ]; then echo "$name"; return; fi
  done
  name=${wanted:-python3}
  echo "Farflung needs Python 3.11 or newer, and $name is $("$name" --version 2>&1 | head -n 1 || true):" \
    "install a newer one, or name it: make env PYTHON=/path/to/python3.11" >&2
  return 1
}

trap 'exit 130' INT
trap 'exit 143' TERM HUP PIPE

# Runs a command with its output in the log. A terminal sees its newest line and the seconds, twice
# a second; a pipe sees a line every ten seconds.
run() {
  local began=$SECONDS said=0
  "$@" >>"$log" 2>&1 &
  process=$!
  # In the background it would ignore Ctrl-C, and go on when this script has ended.
  trap 'kill "$process" 2>/dev/null || true' EXIT
  while kill -0 "$process" 2>/dev/null; do
    if [ -t 1 ]; then
      printf '\r\033[K%3d s  %.68s' $((SECONDS - began)) "$(tail -n 1 "$log" | tr -d '\r\t')"
      sleep 0.5
    else
      sleep 0.2
      if [ $((SECONDS - began)) -ge $((said + 10)) ]; then
        said=$((SECONDS - began))
        printf '%3d s  %.68s\n' "$said" "$(tail -n 1 "$log" | tr -d '\r\t')"
      fi
    fi
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
  trap - EXIT
  if ! wait "$process"; then
    tail -n 15 "$log" >&2
    echo "this failed: $*; the whole output is in $log" >&2
    return 1
  fi
}

has=$(usable "$venv/bin/python")
if [ -z "$has" ] || { [ -n "$wanted" ] && [ "$has" != "$(usable "$wanted")" ]; }; then
  python=$(choose)
  if [ -e "$venv" ]; then
    echo "$venv is of another Python${has:+ (${has% *})}, and is made anew"
    rm -rf "$venv"
  fi
  echo "making $venv with $python ($("$python" --version 2>&1))"
  "$python" -m venv "$venv"
fi
if [ "$ready" -nt pyproject.toml ] && [ "$ready" -nt constraints.txt ]; then exit 0; fi
echo "installing into $venv (PyTorch included: a minute or a few the first time)"
: >"$log"
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt)
run "${pip[@]}" --upgrade pip
run "${pip[@]}" --group dev --editable '.[learner,video,hub,sweep]'
touch "$ready"
echo "ready: type  . $venv/bin/activate  and then  learner, actor  or  broker --help"
