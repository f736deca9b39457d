#!/bin/sh
# The steps of the image, one by name; see Dockerfile. Meant for a bare Debian 12 root file system.
set -eu

USER_ID=65532
HOME_OF_ALL=/opt/sluicegate
TORCH_INDEX=${TORCH_INDEX:-https://download.pytorch.org/whl}

system() {
    apt-get update
    apt-get install -y --no-install-recommends ca-certificates python3
    rm -rf /var/lib/apt/lists/*
    printf 'sluicegate:x:%s:\n' "$USER_ID" >> /etc/group
    printf 'sluicegate:x:%s:%s::/nonexistent:/usr/sbin/nologin\n' "$USER_ID" "$USER_ID" >> /etc/passwd
    install -d -o "$USER_ID" -g "$USER_ID" -m 0700 /var/cache/sluicegate /var/lib/sluicegate
}

build_tools() {
    apt-get update
    apt-get install -y --no-install-recommends gcc libc6-dev python3-dev python3-venv
    rm -rf /var/lib/apt/lists/*
}

# $1: folder of the sources. $2: cpu or cuda.
install_all() {
    case "$2" in
        cpu) index="$TORCH_INDEX/cpu" extras=encryption,gguf,postgres ;;
        cuda) index="$TORCH_INDEX/cu128" extras=cuda,encryption,gguf,postgres ;;
        *) echo "VARIANT is cpu or cuda, found '$2'" >&2; exit 2 ;;
    esac
    python3 -m venv "$HOME_OF_ALL"
    "$HOME_OF_ALL/bin/pip" install --no-cache-dir --extra-index-url "$index" "$1[$extras]"
    rm -rf "$1"
}

# As the user that serves: files of compiled loops that others own are not believed.
warm() {
    setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups \
        sluicegate warm --config /etc/sluicegate/gateway.toml
}

step=$1
shift
case "$step" in
    system) system ;;
    build-tools) build_tools ;;
    install) install_all "$@" ;;
    warm) warm ;;
    *) echo "there is no step '$step': system, build-tools, install, warm" >&2; exit 2 ;;
esac
