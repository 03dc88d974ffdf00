#!/usr/bin/env bash
# Checks the pure crates for wasm32-unknown-unknown, a target with no threads, files or clock to lean on.
#
# The standard library for that target comes from, in this order:
#   1. the installed toolchain (rustup target add wasm32-unknown-unknown);
#   2. Debian's rustc-web packages, unpacked under target/ and never installed: their compiler builds the
#      standard library from Debian's copy of its source.
# With neither, this says so; it fails then only where CI is set.
#
# laxity-operators is not built: DataFusion's physical plan brings arrow-ipc with zstd, which is C and needs
# a clang and a libc for wasm32.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGES=(-p laxity-graph -p laxity-text -p laxity-sched -p laxity-policies -p laxity-runtime -p laxity-workload -p laxity-sim)
TARGET=wasm32-unknown-unknown
TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
TOOLCHAIN=$TARGET_DIR/wasm-toolchain
MINIMUM=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

unavailable() {
    echo "wasm: no way to build for $TARGET here: $1" >&2
    echo "wasm: elsewhere: rustup target add $TARGET, then make wasm again" >&2
    [ -z "${CI:-}" ] || exit 1
    echo "wasm: skipped" >&2
    exit 0
}

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p'; }
at_least() { printf '%s\n%s\n' "$2" "$1" | sort -V -C; }

unpack_debian_toolchain() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || unavailable "not a Debian system"
    if ! at_least "$(candidate rustc-web)" "$MINIMUM"; then
        [ "$(id -u)" = 0 ] || unavailable "apt's package lists have no rustc-web ≥ $MINIMUM; run apt-get update as root"
        echo "wasm: apt-get update"
        apt-get update -qq || unavailable "apt-get update failed"
    fi
    local version release llvm package
    version=$(candidate rustc-web)
    at_least "$version" "$MINIMUM" || unavailable "Debian offers rustc-web ${version:-nowhere}, at least $MINIMUM is needed"
    release=$(cut -d. -f1,2 <<<"$version")
    llvm=$(apt-cache show "libstd-rust-web-$release=$version" | sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p')

    local wanted=("rustc-web=$version" "rust-web-src=$version" "libstd-rust-web-dev=$version"
        "libstd-rust-web-$release=$version" "$llvm")
    # What LLVM links to; most systems have these.
    for package in libedit2 libbsd0 libmd0 libffi8 libxml2 libicu72 libz3-4; do
        dpkg-query -W "$package" >/dev/null 2>&1 || wanted+=("$package")
    done
    echo "wasm: unpacking ${wanted[*]} into $TOOLCHAIN (150 MB to download)"
    rm -rf "$TOOLCHAIN" && mkdir -p "$TOOLCHAIN/debs" "$TOOLCHAIN/bin"
    # As root, apt-get download warns that its sandbox user cannot write here; nothing depends on it.
    (cd "$TOOLCHAIN/debs" && apt-get download -qq "${wanted[@]}" 2>apt.log) ||
        { cat "$TOOLCHAIN/debs/apt.log" >&2; unavailable "apt-get download failed"; }
    for package in "$TOOLCHAIN"/debs/*.deb; do
        dpkg -x "$package" "$TOOLCHAIN/root"
    done
    rm -rf "$TOOLCHAIN/debs" "$TOOLCHAIN"/root/usr/src/*/{compiler,src}

    # The unpacked compiler finds its own libraries only when told; build scripts must not see them.
    cat >"$TOOLCHAIN/bin/rustc" <<-WRAPPER
	#!/bin/sh
	export LD_LIBRARY_PATH="$TOOLCHAIN/root/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
	exec "$TOOLCHAIN/root/usr/bin/rustc" "\$@"
	WRAPPER
    chmod +x "$TOOLCHAIN/bin/rustc"
    "$TOOLCHAIN/bin/rustc" --version || unavailable "Debian's compiler does not run here"
    touch "$TOOLCHAIN/complete"
}

if [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET/lib" ]; then
    cargo check --locked --target "$TARGET" "${PACKAGES[@]}"
else
    [ "$(uname -m)" = x86_64 ] || unavailable "no $TARGET in this toolchain"
    [ -e "$TOOLCHAIN/complete" ] || unpack_debian_toolchain
    # Building the standard library is an unstable feature; the variable allows it on a stable compiler.
    RUSTC="$TOOLCHAIN/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$TARGET_DIR/wasm" \
        cargo check --locked -Z build-std=std,panic_abort --target "$TARGET" "${PACKAGES[@]}"
fi
echo "wasm: checked ${PACKAGES[*]} for $TARGET"
