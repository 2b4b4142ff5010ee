"""The guest as a machine in a Kerberos realm (kerberos.py) whose KDC is on the host. The guest is client1, the host is
server.

Root is the machine (nfs/client1, by /etc/krb5.keytab). The users are those of the realm, with the uids of the host, and
a stranger. A script that begins with join() has the functions:

    ticket alice            gets a ticket for alice
    as alice COMMAND        runs a shell command as alice

Under Kerberos, the owners of files are names of the host's users and groups, in DOMAIN. The guest's kernel maps them by
nfsidmap. So the guest has these users and groups as well, before the users of the realm, who have the same uids.
"""

import grp
import os
import pwd

from cases import Skip
from guest_programs import built_library, with_libraries
from kerberos import USERS, Realm

SERVER = "server"  # the host's name in mounts
MACHINE = "nfs/client1"
STRANGER = "carol"  # a user without a ticket
STRANGERS_UID = 4711

DOMAIN = "names.example"  # of owners in version 4, on both sides
NFSIDMAP_PLUGIN = "/usr/lib/x86_64-linux-gnu/libnfsidmap/nsswitch.so"
IDMAPD_CONF = f"[General]\nDomain = {DOMAIN}\n"
REQUEST_KEY_CONF = "create id_resolver * * /usr/sbin/nfsidmap -t 600 %k %d\n"

HOSTS = """127.0.0.1 localhost
127.0.1.1 client1
10.0.2.2 %s host
"""
# rpc.gssd makes contexts over TCP and at port 2049, whatever the mount's transport and port are. Here that port leads
# to the server's port, because the test does not own the host's port 2049. A script that fails prints the messages of
# rpc.gssd. The kernel considers rpc.gssd running once it has opened this pipe; an earlier mount would go without
# Kerberos if it could.
JOIN = """
hostname client1
trap '[ $? = 0 ] || cat /tmp/gssd.log' EXIT
mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs || exit 1
LD_PRELOAD=/lib/gssd_port.so GSSD_PORT=%(port)d rpc.gssd -f -v >/tmp/gssd.log 2>&1 & gssd=$!
as() { user=$1; shift; su "$user" -s /bin/sh -c "$*"; }
ticket() { chown $1 /keys/$1; as $1 kinit -k -t /keys/$1 $1; }
until ls -l /proc/$gssd/fd | grep -q clntXX/gssd; do kill -0 $gssd || exit 1; sleep 0.1; done
"""


def join(server):
    """Returns the beginning of a script, for the exports of `server`."""
    return JOIN % {"port": server.tcp}


def uid(user):
    """Returns the uid of a user, on the host and in the guest."""
    return STRANGERS_UID if user == STRANGER else pwd.getpwnam(USERS[user]).pw_uid


def realm():
    """Makes a realm with a service for the server and a machine for the guest."""
    return Realm((*USERS, MACHINE, f"nfs/{SERVER}"))


def keytab_of_server(kerberos):
    return kerberos.keytab(f"nfs/{SERVER}")


def idmapping():
    """Returns {path in the guest: file}: what the kernel calls to map names of owners."""
    for program in "/usr/sbin/request-key", "/usr/sbin/nfsidmap", NFSIDMAP_PLUGIN:
        if not os.path.exists(program):
            raise Skip(f"{program} is not installed (packages keyutils, nfs-common, libnfsidmap1)")
    programs = {"sbin/request-key": "/usr/sbin/request-key", "usr/sbin/nfsidmap": "/usr/sbin/nfsidmap",
                NFSIDMAP_PLUGIN.lstrip("/"): NFSIDMAP_PLUGIN}
    found = {}
    for path, program in programs.items():
        found |= with_libraries(path, program, folder="")
    return found | {"etc/idmapd.conf": IDMAPD_CONF.encode(), "etc/request-key.conf": REQUEST_KEY_CONF.encode()}


def files(kerberos):
    """Returns {path in the guest: file}, for Guest(files=...)."""
    users = (*USERS, STRANGER)
    of_host = [pwd.getpwnam(name) for name in USERS.values()]
    passwd = "root:x:0:0::/:/bin/sh\n" + "".join(f"{each.pw_name}:x:{each.pw_uid}:{each.pw_gid}::/:/bin/sh\n" for each in of_host)
    passwd += "".join(f"{user}:x:{uid(user)}:{uid(user)}::/:/bin/sh\n" for user in users)
    group = "root:x:0:\n" + "".join(f"{grp.getgrgid(each.pw_gid).gr_name}:x:{each.pw_gid}:\n" for each in of_host)
    group += "".join(f"{user}:x:{uid(user)}:\n" for user in users)
    return {**idmapping(), "etc/krb5.conf": kerberos.configuration(kdc="10.0.2.2").encode(),
            "etc/krb5.keytab": kerberos.keytab(MACHINE),
            "etc/passwd": passwd.encode(), "etc/group": group.encode(), "etc/hosts": (HOSTS % SERVER).encode(),
            "lib/gssd_port.so": built_library("gssd_port"),
            **{f"keys/{user}": kerberos.keytab(user) for user in USERS}}
