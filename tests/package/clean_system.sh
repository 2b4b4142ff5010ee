# Runs in a clean system, as root, with the package in /test: installs it, uses it, removes it, purges it.
. /test/serving.sh
export DEBIAN_FRONTEND=noninteractive
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/test*' -not -path '/var/cache/man/*' -name '*penstock*' | sort >/tmp/before
test ! -s /tmp/before

apt-get install -y --no-install-recommends /test/penstock_*.deb
penstock --version
man -w penstock penstock-serve penstock-url
man penstock-serve | grep -q 'rpcbind'
getent group penstock
dpkg --verify penstock
test "$(stat -c '%a %U' /etc/penstock/penstock.toml)" = '644 root'

# A server, and a copy to it and back.
mkdir /srv/data
start penstock serve /srv/data --tcp-port 32049 --rdma-port 32050 --mount-port 32048 --rpcbind off
head -c 3000000 /dev/urandom >/tmp/file
penstock cp -q /tmp/file 'nfs://127.0.0.1:32050/file?proto=rdma'
penstock cp -q 'nfs://127.0.0.1:32049/file' /tmp/back
cmp /tmp/file /tmp/back
cmp /tmp/file /srv/data/file
penstock ls -l 'nfs://127.0.0.1:32049/' | grep -q ' file$'
kill $server
wait $server
test "$(stat -c %a /var/lib/penstock)" = 700

# Removing keeps the configuration and the state; purging removes both.
apt-get remove -y penstock
test ! -e /usr/bin/penstock
test -e /etc/penstock/penstock.toml
test -d /var/lib/penstock
apt-get purge -y penstock
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/test*' -not -path '/var/cache/man/*' -name '*penstock*' | sort >/tmp/after
cat /tmp/after
test ! -s /tmp/after
