# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
# What tools/check and tools/quickstart share. To be sourced by bash with `set -euo pipefail`.

# What it takes to build confab, and to run its tests, on Debian 12.
CONFAB_BUILD_PACKAGES=(
        gcc libc6-dev meson ninja-build pkg-config python3 libevent-dev libprotobuf-c-dev
        protobuf-c-compiler protobuf-compiler liblz4-dev libsystemd-dev libsqlite3-dev libpq-dev
        libhiredis-dev libssl-dev libxxhash-dev libsodium-dev libedit-dev libjansson-dev)
# What tools/quickstart shows besides, and its test with it.
CONFAB_QUICKSTART_PACKAGES=(curl)
# What the page of confab-gateway shows Markdown, code and mathematics with; it shows plain text without.
CONFAB_PAGE_PACKAGES=(libjs-markdown-it node-dompurify libjs-highlight.js libjs-katex)
# What tools/cluster-test runs.
CONFAB_CLUSTER_PACKAGES=(postgresql redis-server iproute2 python3-protobuf)
CONFAB_TEST_PACKAGES=("${CONFAB_QUICKSTART_PACKAGES[@]}" "${CONFAB_PAGE_PACKAGES[@]}" "${CONFAB_CLUSTER_PACKAGES[@]}" openssl libcmocka-dev clang clang-format libclang-rt-14-dev llvm
        sqlite3 git python3-jinja2 chromium chromium-headless-shell chromium-driver python3-selenium fonts-dejavu-core
        man-db mandoc bash-completion zsh fish python3-pyte)
# What tools/package takes besides CONFAB_BUILD_PACKAGES (tools/debian/control names both).
CONFAB_PACKAGE_PACKAGES=(build-essential debhelper dh-python lintian python3-protobuf)
# What tests/systemd/container.py boots a Debian with; tests skip aloud without.
CONFAB_CONTAINER_PACKAGES=(debootstrap debian-archive-keyring systemd-container)
# What tools/check-arm crosses with, and runs in; tests skip aloud without.
CONFAB_ARM_PACKAGES=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)

confab_say() {
        printf '%s\n' "$*"
}

confab_die() {
        printf '%s: %s\n' "${0##*/}" "$*" >&2
        exit 1
}

# confab_progress WHAT LOG COMMAND...: runs the command with its output in LOG. A terminal sees the
# time and the log's last line; others a line per minute. On failure the log's end is shown, and
# the command's status returned.
confab_progress() {
        local what=$1 log=$2 pid status=0 started=$SECONDS last_said=$SECONDS line
        shift 2
        mkdir -p "$(dirname "$log")"
        "$@" >>"$log" 2>&1 </dev/null &
        pid=$!
        while kill -0 "$pid" 2>/dev/null; do
                if [ -t 1 ]; then
                        line=$(tail -c 400 "$log" | tr '\r' '\n' | tr -cd '\n[:print:]' | tail -n 1)
                        printf '\r\033[K%s ... %d s  %.*s' "$what" $((SECONDS - started)) \
                                $((${COLUMNS:-80} > 60 ? ${COLUMNS:-80} - 50 : 10)) "$line"
                elif [ $((SECONDS - last_said)) -ge 60 ]; then
                        confab_say "$what ... $((SECONDS - started)) s"
                        last_said=$SECONDS
                fi
                sleep 0.2
        done
        wait "$pid" || status=$?
        [ ! -t 1 ] || printf '\r\033[K'
        if [ "$status" -eq 0 ]; then
                confab_say "$what: done in $((SECONDS - started)) s"
        else
                confab_say "$what: FAILED after $((SECONDS - started)) s, see $log"
        fi
        return "$status"
}

# Names of the given packages that are not installed.
confab_missing_packages() {
        local package
        for package in "$@"; do
                [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
                        printf '%s\n' "$package"
        done
}

# confab_install_packages PACKAGE...: installs what is missing, as root or with sudo. Nothing is
# asked of apt when all are there.
confab_install_packages() {
        local missing=() log=${CONFAB_LOG_FOLDER:-build}/packages.log sudo=()
        if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
                confab_say "not a Debian system: taking for granted what corresponds to: $*"
                return 0
        fi
        mapfile -t missing < <(confab_missing_packages "$@")
        [ "${#missing[@]}" -gt 0 ] || return 0
        if [ "$(id -u)" -ne 0 ]; then
                command -v sudo >/dev/null ||
                        confab_die "run as root, or install sudo, or these packages: ${missing[*]}"
                sudo -v || confab_die "these packages are missing: ${missing[*]}"
                sudo=(sudo)
        fi
        confab_say "packages to install: ${missing[*]}"
        local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
                -o Dpkg::Use-Pty=0 -o APT::Color=0)
        # an old list may do: only the installation has to succeed
        confab_progress "package lists" "$log" "${apt[@]}" update || tail -n 5 "$log"
        if ! confab_progress "installing ${#missing[@]} packages" "$log" \
                "${apt[@]}" install --no-install-recommends "${missing[@]}"; then
                tail -n 20 "$log"
                confab_die "the packages could not be installed"
        fi
}

# confab_fetch_axe: axe-core, with which tests look at the page, from the npm registry into the cache where they find it.
# What cannot be fetched is said: those tests are then skipped.
confab_fetch_axe() {
        local package made log=${CONFAB_LOG_FOLDER:-build}/axe.log
        package=$(python3 -B tests/page/axe.py)
        [ -n "$package" ] || return 0
        if ! command -v npm >/dev/null; then
                confab_say "no npm here to fetch $package with: tests that need it are skipped"
                return 0
        fi
        made=$(mktemp -d)
        if ! confab_progress "fetching $package" "$log" timeout 120 npm pack --fetch-retries=1 --pack-destination="$made" "$package" ||
                ! python3 -B tests/page/axe.py --keep "$made"/*.tgz; then
                confab_say "there is no $package: tests that need it are skipped"
        fi
        rm -rf "$made"
}

# confab_fetch_prometheus: Debian's Prometheus, with which tests look at docs/monitoring, into the cache where they find it. It is not
# installed, since the package starts a server that all of the network reaches. What cannot be fetched is said: the test is then skipped.
confab_fetch_prometheus() {
        local package made log=$PWD/${CONFAB_LOG_FOLDER:-build}/prometheus.log
        package=$(python3 -B tests/gateway/prometheus.py)
        [ -n "$package" ] || return 0
        if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
                confab_say "no apt-get here to fetch $package with: the test that needs it is skipped"
                return 0
        fi
        made=$(mktemp -d)
        if ! confab_progress "fetching $package" "$log" env -C "$made" timeout 120 apt-get -q download "$package" ||
                ! python3 -B tests/gateway/prometheus.py --keep "$made"/*.deb; then
                confab_say "there is no $package: the test that needs it is skipped"
        fi
        rm -rf "$made"
}
