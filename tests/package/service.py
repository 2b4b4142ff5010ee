"""The installed package as a service of a real systemd, in a guest whose kernel is the client: sockets, a reload, a restart and an
upgrade beside four clients that write, and the removal."""

import os
import subprocess
import sys

from debian import cases, host_codename, only
from systemd_host import boot, make_system

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
from linux import require  # noqa: E402

# Five lines of the examples in exports(5). The guest is proj1.local.domain, pc001 and 192.0.2.1.
EXPORTS = """\
/projects       proj*.local.domain(rw)
/usr            *.local.domain(ro) @trusted(rw)
/home/joe       pc001(rw,all_squash,anonuid=150,anongid=100)
/pub            *(ro,insecure,all_squash)
/foo            2001:db8:9:e54::/64(rw) 192.0.2.0/24(rw)
"""

SET_UP = """
fail() { echo "FAILED: $*"; journalctl -u penstock --no-pager -n 40; dmesg | tail -5; exit 1; }
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }
has_not_crashed() {
  test "$(state NRestarts)$(second NRestarts)" = 00 || fail "a server crashed"
  journalctl -u penstock -u penstock@second --no-pager | grep -E 'Failed with result|core-dump|AddressSanitizer' && fail "a server failed"
}
state() { systemctl show -P "$1" penstock; }
wait_for() { n=0; until eval "$1"; do n=$((n + 1)); test $n -lt 600 || fail "never: $1"; sleep 0.1; done; }

ip link set lo up; ip addr add 192.0.2.1/24 dev eth0; ip link set eth0 up
rdma link add siw0 type siw netdev eth0 || exit 1
echo '192.0.2.1 proj1.local.domain pc001' >>/etc/hosts
truncate -s 800M /disk && mkfs.ext4 -q /disk && mkdir /exported && mount -o loop /disk /exported || exit 1
for e in projects home/joe pub foo; do
  mkdir -p /exported/$e /$e && mount --bind /exported/$e /$e || exit 1
done
# Not 1777: Linux keeps a root that is squashed from opening the files that it has made there (fs.protected_regular).
chmod 777 /projects /foo; chown 150:100 /home/joe
echo public >/pub/file; head -c 4000000 /dev/urandom >/source

# As docs/service.md says.
cat >/etc/exports <<'TABLE'
%s
TABLE
sed -i 's|^#tables = .*|tables = ["/etc/exports"]|' /etc/penstock/penstock.toml
penstock check-config || fail "check-config"
for each in tcp:Stream:2049 rdma:Stream:20049 mount:Stream:20048 mount-udp:Datagram:20048; do
  IFS=: read name kind port <<PARTS
$each
PARTS
  folder=/etc/systemd/system/penstock-$name.socket.d
  mkdir -p $folder
  printf '[Socket]\\nListen%%s=\\nListen%%s=192.0.2.1:%%s\\n' $kind $kind $port >$folder/override.conf
done
systemctl daemon-reload
""" % EXPORTS

# The server starts with the first connection to one of its sockets.
START = """
test "$(state ActiveState)" = inactive || fail "the service started by itself"
systemctl enable -q --now penstock-tcp.socket penstock-rdma.socket penstock-mount.socket penstock-mount-udp.socket || fail sockets
mkdir -p /mnt/tcp3 /mnt/rdma3 /mnt/tcp41 /mnt/rdma42 /mnt/pub /mnt/usr
n=0
attach() {  # attach TYPE VERSION EXPORT
  n=$((n + 1)); echo client-$n >/sys/fs/nfs/net/nfs_client/identifier
  more=; test "$2" != 3 || more=,nolock,mountproto=tcp,mountport=20048
  port=2049; test "$1" != rdma || port=20049
  mount -t nfs -o "vers=$2,proto=$1,port=$port,hard$more" 192.0.2.1:$3 /mnt/${4:-$1${2/./}} || fail "mount $*"
}
attach tcp 3 /projects
test "$(state ActiveState) $(state Type)" = 'active notify' || fail "not started by its socket"
attach rdma 3 /foo
attach tcp 4.1 /home/joe
attach rdma 4.2 /foo
attach tcp 4.2 /pub pub
attach tcp 4.2 /usr usr
cmp /mnt/usr/bin/penstock /usr/bin/penstock || fail "/usr differs"
test "$(cat /mnt/pub/file)" = public && ! echo more 2>/dev/null >/mnt/pub/file || fail "/pub"
echo me >/mnt/tcp41/mine && test "$(stat -c %u:%g /home/joe/mine)" = 150:100 || fail "all_squash"
echo me >/mnt/tcp3/mine && test "$(stat -c %u:%g /projects/mine)" = 65534:65534 || fail "root_squash"
echo "status: $(state StatusText)"
penstock ctl clients | sed 's/^/clients: /'
# A second server, from the template.
cat >/etc/penstock/second.toml <<'FILE'
[exports]
export = ["/=/pub:ro"]
[listen]
tcp-port = 3049
rdma-port = 30049
mount-port = 30048
rpcbind = "off"
[logging]
audit = "/var/log/penstock-second/audit"
FILE
penstock check-config --config /etc/penstock/second.toml || fail "check-config of the second server"
systemctl enable -q --now penstock@second || fail "the second server"
second() { systemctl show -P "$1" penstock@second; }
test "$(penstock cat nfs://127.0.0.1:3049/file)" = public || fail "the second server does not serve"
test "$(stat -c %a /var/lib/penstock-second /var/log/penstock-second | tr '\\n' ' ')" = "700 700 " || fail "modes of the second server"
grep -q '"path":"/file"' /var/log/penstock-second/audit || { cat /var/log/penstock-second/audit; fail "the audit log of the second server"; }
echo "seccomp: $(grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/$(state MainPID)/status | tr '\\n\\t' '  ')"
"""

# Four clients write until they are told to stop. Each checks each file, after its cache is gone.
WRITERS = """
rm -f /stop
writer() {
  k=0
  until [ -e /stop ] && [ $k -ge 3 ]; do
    cp /source /mnt/$1/$1-$((k % 8)) && sync /mnt/$1/$1-$((k % 8)) || { echo "writer $1 failed at $k"; return 1; }
    k=$((k + 1)); echo "$k" >/progress-$1.new; mv /progress-$1.new /progress-$1
  done
  echo "writer $1 wrote $k files"
}
writers=
for m in tcp3 rdma3 tcp41 rdma42; do echo 0 >/progress-$m; writer $m & writers="$writers $!"; done
all_move() {
  for m in tcp3 rdma3 tcp41 rdma42; do was=$(cat /progress-$m); wait_for "test \\$(cat /progress-$m) -ge $((was + 2))"; done
}
all_move
"""

# The table gets another export, and an option of an old one changes.
RELOAD = """
before=$(state MainPID)
mkdir -p /exported/late && mkdir /late && mount --bind /exported/late /late && echo late >/late/file
echo '/late *(ro,insecure)' >>/etc/exports
sed -i 's|^/pub .*|/pub *(rw,insecure,all_squash,anonuid=150)|' /etc/exports
chmod 777 /pub
systemctl reload penstock || fail reload
all_move
wait_for "penstock ctl exports | grep -q /late"
test "$(state MainPID)" = "$before" || fail "the reload restarted the server"
wait_for "echo more 2>/dev/null >/mnt/pub/new"
mkdir -p /mnt/late; mount -t nfs -o vers=4.2,proto=tcp 192.0.2.1:/late /mnt/late && cat /mnt/late/file && umount /mnt/late || fail late
echo '/bad *(rw,wrong_option)' >>/etc/exports
systemctl reload penstock
wait_for "journalctl -u penstock --no-pager | grep -q wrong_option"
all_move
sed -i '$d' /etc/exports
echo "reload done"
"""

RESTART = """
has_not_crashed
systemctl restart penstock || fail restart
test "$(state MainPID)" != "$before" || fail "the server was not restarted"
all_move
echo "restart done: $(state StatusText)"
"""

# dpkg as apt runs it. The new program is another file.
UPGRADE = """
has_not_crashed
before=$(state MainPID) before_second=$(second MainPID) old=$(stat -Lc %i /proc/$(state MainPID)/exe)
dpkg -i /test/new/penstock_*.deb || fail upgrade
test "$(state MainPID)" != "$before" || fail "the upgrade did not restart the server"
test "$(state ActiveState)" = active || fail "the server does not run after the upgrade"
test "$(second ActiveState)" = active -a "$(second MainPID)" != "$before_second" || fail "the upgrade did not restart the second server"
test "$(stat -Lc %i /proc/$(state MainPID)/exe)" != "$old" || fail "the old program runs"
all_move
echo "upgrade done: $(dpkg-query -W -f '${Version}' penstock)"
"""

CHECK = """
: >/stop
for w in $writers; do wait $w || fail "a client saw an error"; done
drop_caches
check() {
  for f in $2/$1-*; do cmp $f /source || fail "$f differs on the server"; done
  for f in /mnt/$1/$1-*; do cmp $f /source || fail "$f differs at the client"; done
}
check tcp3 /projects; check rdma3 /foo; check tcp41 /home/joe; check rdma42 /foo
wait_for '! systemctl show -P StatusText penstock | grep -q grace'
# Nothing but the reload that had to fail.
journalctl -u penstock --no-pager -p err | grep -v -e '^-- ' -e 'wrong_option' -e 'goes on with its old configuration' && fail "the log has errors"
dmesg | grep -i 'nfs.*error\\|lost' && fail "the kernel of the client has lost something"
has_not_crashed
for m in tcp3 rdma3 tcp41 rdma42 pub usr; do umount /mnt/$m || fail "umount $m"; done
echo "all is the same"
"""

# The server dies: systemd starts another one. Then the package goes.
END = """
kill -KILL $(state MainPID)
wait_for 'test "$(state NRestarts) $(state ActiveState)" = "1 active"'
echo "killed: started again"
dpkg -r penstock || fail remove
test "$(state ActiveState) $(second ActiveState)" = 'inactive inactive' || fail "the removal left servers running"
test -z "$(ss -Hltn '( sport = :2049 or sport = :20049 or sport = :20048 or sport = :3049 )')" || fail "the removal left sockets"
dpkg -P penstock || fail purge
test ! -e /etc/penstock/penstock.toml -a ! -e /var/lib/penstock -a ! -e /var/log/penstock || fail "purged, but there is state"
echo "removed"
"""


def newer(package, scratch):
    """The same package with a higher version, as the next release would be."""
    folder = f"{scratch}/unpacked"
    subprocess.run(["dpkg-deb", "-R", package, folder], check=True)
    with open(f"{folder}/DEBIAN/control") as control:
        lines = [line.rstrip("\n") + ("+next" if line.startswith("Version:") else "") for line in control]
    with open(f"{folder}/DEBIAN/control", "w") as control:
        control.write("\n".join(lines) + "\n")
    os.mkdir(f"{scratch}/new")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder, f"{scratch}/new"], stdout=subprocess.DEVNULL, check=True)
    return f"{scratch}/new"


def service(scratch):
    require()
    package = only("penstock_*.deb")
    image = make_system(host_codename(), package, scratch, [newer(package, scratch)])
    with boot(image, SET_UP + START + WRITERS + RELOAD + RESTART + UPGRADE + CHECK + END) as guest:
        lines = guest.finish(600)
    for said in ("reload done", "restart done: ", "upgrade done: ", "all is the same", "killed: started again", "removed"):
        assert any(line.startswith(said) for line in lines), f"the guest did not say {said!r}"


if __name__ == "__main__":
    cases.main({"service": service})
