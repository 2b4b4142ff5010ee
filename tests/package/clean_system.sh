# Runs in a clean system, as root, with the server's package and the one of its module for CephFS in /test: installs them, uses them, removes
# them, purges them.
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

# An export of CephFS is refused, with the words $1.
refuses_cephfs() {
  status=0
  timeout 60 penstock serve 'ceph:/x?conf=/nonexistent' --tcp-port 32049 --rdma-port 32050 --mount-port 32048 --rpcbind off >/tmp/refused 2>&1 ||
    status=$?
  cat /tmp/refused
  test $status = 1
  grep -qF "$1" /tmp/refused
}
# The server's package brings none of Ceph's libraries.
test -z "$(find / -xdev '(' -name 'libcephfs*' -o -name 'librados*' ')')"
refuses_cephfs 'install penstock-ceph'
apt-get install -y --no-install-recommends /test/penstock-ceph_*.deb
dpkg --verify penstock-ceph
refuses_cephfs "the cluster's configuration /nonexistent cannot be read"
apt-get remove -y penstock-ceph
refuses_cephfs 'install penstock-ceph'

# Removing keeps the configuration and the state; purging removes both.
apt-get remove -y penstock
test ! -e /usr/bin/penstock
test -e /etc/penstock/penstock.toml
test -d /var/lib/penstock
apt-get purge -y penstock
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/test*' -not -path '/var/cache/man/*' -name '*penstock*' | sort >/tmp/after
cat /tmp/after
test ! -s /tmp/after
