#!/bin/sh
# Install Debian's Chromium for the tests of the report page, if this may be done here.
# Quiet; does nothing if it is there already, and never fails: without a browser those tests are skipped.

log=$(mktemp) || exit 0
trap 'rm -f "$log"' EXIT

present() { command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; }

present && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "chromium is not installed (this needs root and apt): the browser tests will be skipped"
    exit 0
fi

echo "installing chromium for the browser tests (once)"
export DEBIAN_FRONTEND=noninteractive
install() { timeout 300 apt-get install -y -qq --no-install-recommends chromium chromium-driver >"$log" 2>&1; }
install || { timeout 120 apt-get update -qq >"$log" 2>&1; install; }
present || echo "chromium could not be installed ($(tail -n 1 "$log")): the browser tests will be skipped"
exit 0
