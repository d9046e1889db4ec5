# Sourced by setup.sh: what only tests need. Everything else works without it, so a missing part is reported and set-up
# continues. Uses say, retry, candidate and available of setup.sh.
# shellcheck shell=bash

have_browser() {
    if [ -n "${SRM_CHROMIUM:-}" ]; then [ -x "$SRM_CHROMIUM" ]; return; fi
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" > /dev/null && return 0
    done
    return 1
}

have_postgresql() { command -v initdb > /dev/null || compgen -G "/usr/lib/postgresql/*/bin/initdb" > /dev/null; }
have_prometheus() {
    command -v promtool > /dev/null || return 1
    case $(prometheus --version 2>&1) in 'prometheus, version '*) ;; *) return 1 ;; esac
}
have_compiler() { command -v javac > /dev/null; }
have_kerberos() {
    PATH=$PATH:/usr/sbin:/sbin command -v krb5kdc > /dev/null && PATH=$PATH:/usr/sbin:/sbin command -v kadmin.local > /dev/null &&
        command -v kinit > /dev/null && command -v krb5-config > /dev/null
}

# Version 1 of Compose does not know the file's keys.
have_compose() {
    docker compose version > /dev/null 2>&1 && return 0
    case $(docker-compose version --short 2> /dev/null) in '' | 1.* | v1.*) return 1 ;; esac
}

# Debian's packages of each. Inter is what Airflow's pages use.
packages_of() {
    case $1 in
        browser) echo chromium fonts-inter ;;
        postgresql) echo postgresql ;;
        prometheus) echo prometheus ;;
        compiler) available openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless ;;
        kerberos) echo krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc libc6-dev python3-dev ;;
        compose) compose_package ;;
    esac
}

name_of() {
    case $1 in
        browser) echo Chromium ;;
        postgresql) echo "PostgreSQL server" ;;
        prometheus) echo "Prometheus with promtool" ;;
        compiler) echo "Java compiler" ;;
        kerberos) echo "Kerberos KDC with the headers of MIT Kerberos" ;;
        compose) echo "Docker Compose 2" ;;
    esac
}

elsewhere() {
    case $1 in
        browser) echo "Fedora: sudo dnf install chromium   macOS: brew install --cask chromium" ;;
        postgresql) echo "Fedora: sudo dnf install postgresql-server   macOS: brew install postgresql" ;;
        prometheus) echo "promtool and prometheus of https://prometheus.io/download/ on the PATH   macOS: brew install prometheus" ;;
        compiler) echo "Fedora: sudo dnf install java-21-openjdk-devel   macOS: brew install openjdk@17" ;;
        kerberos) echo "Fedora: sudo dnf install krb5-server krb5-workstation krb5-devel gcc python3-devel" ;;
        compose) echo "https://docs.docker.com/compose/install/" ;;
    esac
}

# The first package that brings version 2; Debian 12 has none.
compose_package() {
    local name version
    for name in docker-compose-v2 docker-compose-plugin docker-compose; do
        version=$(candidate "$name")
        case $version in '' | 0* | 1.*) ;; *) echo "$name"; return ;; esac
    done
}

tests_tools() {
    local what packages
    if [ -n "${SRM_CHROMIUM:-}" ] && ! have_browser; then
        say "SRM_CHROMIUM is $SRM_CHROMIUM, and no program; the browser tests will be skipped"
    fi
    for what in browser postgresql prometheus compiler kerberos compose; do
        if "have_$what" || { [ "$what" = browser ] && [ -n "${SRM_CHROMIUM:-}" ]; }; then continue; fi
        packages=
        if command -v apt-get > /dev/null; then
            # A fresh machine has no lists of packages, and knows of none.
            if [ "$(id -u)" = 0 ] && ! compgen -G "/var/lib/apt/lists/*_Packages*" > /dev/null; then
                apt_updated || say "the lists of packages cannot be had; the lines above say why"
            fi
            packages=$(packages_of "$what")
        fi
        if [ -z "$packages" ]; then
            say "no $(name_of "$what"): the tests that need it are skipped. Install it:"
            say "  $(elsewhere "$what")"
        elif [ "$(id -u)" != 0 ]; then
            say "no $(name_of "$what"): the tests that need it are skipped. Install it with"
            say "  sudo apt-get install -y --no-install-recommends $packages"
        else
            say "installing for the tests: $(name_of "$what")"
            # shellcheck disable=SC2086
            install_for_tests "$what" $packages ||
                say "$(name_of "$what") could not be installed; the lines above say why, and tests that need it are skipped"
        fi
    done
}

# No service may come with it that runs on a fixed port, now or after the next boot.
install_for_tests() { # what, package...
    local what=$1 no_cluster=/etc/postgresql-common/createcluster.d/srm-kafka.conf code=0
    shift
    export DEBIAN_FRONTEND=noninteractive
    apt_updated || return 1
    case $what in
        prometheus) programs_of_package "$1" prometheus promtool ;;
        compose) programs_of_package "$1" docker-compose ;;
        postgresql)
            mkdir -p "${no_cluster%/*}" && echo "create_main_cluster = false" > "$no_cluster" || return 1
            retry apt-get install -y -q --no-install-recommends "$@" || code=1
            rm -f "$no_cluster"
            return "$code"
            ;;
        kerberos)
            # Its KDC and its admin server are started by tests alone, on ports of their own.
            without_services apt-get install -y -q --no-install-recommends "$@"
            ;;
        *) retry apt-get install -y -q --no-install-recommends "$@" ;;
    esac
}

# Debian asks this file whether a package may start its services; a service is not started at the next boot either.
without_services() {
    local policy=/usr/sbin/policy-rc.d mine= code=0 unit
    if [ ! -e "$policy" ]; then
        mine=1
        printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" || return 1
    fi
    retry "$@" || code=1
    if [ -n "$mine" ]; then rm -f "$policy"; fi
    if command -v systemctl > /dev/null; then
        for unit in krb5-kdc krb5-admin-server; do systemctl disable -q "$unit" 2> /dev/null || true; done
    fi
    return "$code"
}

apt_updated() {
    [ -n "${apt_is_updated:-}" ] || retry apt-get update -q || return 1
    apt_is_updated=1
}

# Only the named programs of a package, in /usr/local/bin: the package itself would bring services.
programs_of_package() { # package, program...
    local package=$1 folder program found code=0
    shift
    folder=$(mktemp -d) || return 1
    chmod 755 "$folder"
    if (cd "$folder" && retry apt-get download -q -o APT::Sandbox::User=root "$package") && dpkg-deb -x "$folder"/*.deb "$folder/files"; then
        for program in "$@"; do
            # Not the script of the same name in init.d.
            found=$(find "$folder/files" -path '*/bin/*' -type f -perm -u+x -name "$program" | head -n 1)
            if [ -n "$found" ]; then install "$found" /usr/local/bin/ || code=1; else code=1; fi
        done
    else
        code=1
    fi
    rm -rf "$folder"
    return "$code"
}
