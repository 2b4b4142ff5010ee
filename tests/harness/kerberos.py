#!/usr/bin/python3
"""A temporary Kerberos realm: configuration, database, keytabs and tickets in one folder, and a KDC on a loopback port.
It uses only the programs of the host's Kerberos, and leaves nothing behind.

    kerberos.py run -- COMMAND...     runs COMMAND in such a realm; its exit code is COMMAND's

The environment of the command has KRB5_CONFIG, KRB5_KTNAME (a server's keytab: nfs/localhost, nfs/THIS-HOST),
KRB5CCNAME (of alice), and for each of USERS and MACHINES a keytab and a cache: TEST_KEYTAB_ALICE and
TEST_CACHE_ALICE, ..., TEST_KEYTAB_HOST_CLIENT1 and TEST_CACHE_HOST_CLIENT1, ... On this host alice is
daemon, bob is bin.
"""

import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time

from cases import Skip, run_beside
from patience import BUSY
from ports import free_ports

NAME = "PENSTOCK.TEST"
# Their users on the host, which every Debian has.
USERS = {"alice": "daemon", "bob": "bin"}
MACHINES = ("host/client1", "host/client2", "nfs/client1")
SERVERS = ("nfs/localhost", f"nfs/{socket.gethostname().lower()}")
START_SECONDS = 60 * BUSY
SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where a user does not look for a KDC

# Host names are used as written. The encryption types are those that Linux 6.1 supports as well (RFC 3962).
CONFIGURATION = """[libdefaults]
  default_realm = %(name)s
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  qualify_shortname = ""
  rdns = false
  permitted_enctypes = aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96
[realms]
  %(name)s = {
    kdc = %(kdc)s:%(port)d
    auth_to_local_names = {
%(users)s
    }
  }
"""
KDC_CONFIGURATION = """[kdcdefaults]
  kdc_listen = 127.0.0.1:%(port)d
  kdc_tcp_listen = 127.0.0.1:%(port)d
[realms]
  %(name)s = {
    database_name = %(folder)s/principals
    key_stash_file = %(folder)s/stash
    acl_file = %(folder)s/acl
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
    max_life = 1d
  }
[logging]
  kdc = FILE:%(folder)s/kdc.log
"""


def program(name):
    path = shutil.which(name, path=SYSTEM_PATH)
    if not path:
        raise Skip(f"{name} is not installed (packages krb5-kdc, krb5-admin-server, krb5-user)")
    return path


class Realm:
    """A context manager: the KDC runs within it. Principals have random keys in their keytabs."""

    def __init__(self, principals=(*USERS, *MACHINES, *SERVERS)):
        self.principals = tuple(dict.fromkeys(principals))

    def __enter__(self):
        self.programs = {name: program(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "setpriv")}
        self.scratch = tempfile.TemporaryDirectory(prefix="penstock-realm-")
        self.folder = self.scratch.name
        try:
            self._start()
        except BaseException:
            self.scratch.cleanup()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.scratch.cleanup()

    @property
    def environment(self):
        """Returns the environment of a program in this realm, for any principal."""
        return {"KRB5_CONFIG": f"{self.folder}/krb5.conf", "KRB5_KDC_PROFILE": f"{self.folder}/kdc.conf",
                "KRB5RCACHENAME": f"file2:{self.folder}/replays"}

    def configuration(self, kdc="127.0.0.1"):
        """Returns krb5.conf for a host that reaches the KDC under the given address."""
        users = "\n".join(f"      {name} = {local}" for name, local in USERS.items())
        return CONFIGURATION % {"name": NAME, "port": self.port, "kdc": kdc, "users": users}

    def keytab(self, *principals):
        """Returns the path of a keytab with the keys of these principals."""
        path = self._path("keytab", principals)
        if not os.path.exists(path):
            self._administer(f"ktadd -k {path} -norandkey {' '.join(principals)}")
        return path

    def cache(self, principal, lifetime="1d"):
        """Returns the name of a credential cache with a ticket of the principal, from the KDC."""
        path = self._path("cache", (principal, lifetime))
        if not os.path.exists(path):
            self.renew(f"FILE:{path}", principal, lifetime)
        return f"FILE:{path}"

    def renew(self, cache, principal, lifetime="1d"):
        """Replaces the content of a credential cache by a new ticket of the principal."""
        self._run("kinit", "-k", "-t", self.keytab(principal), "-c", cache, "-l", lifetime, principal)

    def limit_lifetime(self, principal, seconds):
        """The principal gets only tickets that last so long."""
        self._administer(f'modprinc -maxlife "{seconds} seconds" {principal}')

    def change_key(self, principal):
        """Gives the principal another key. Keytabs that were made before have the old one."""
        self._administer(f"cpw -randkey {principal}")

    def stop(self):
        self.kdc.kill()
        self.kdc.wait()
        self.kdc.stdout.close()

    def _path(self, kind, names):
        return f"{self.folder}/{'+'.join(names).replace('/', '_')}.{kind}"

    def _start(self):
        """Makes the database and starts the KDC, on another port if some program has taken the first one meanwhile."""
        for attempt in range(5):
            (self.port,) = free_ports(1)
            self._write("krb5.conf", self.configuration())
            self._write("kdc.conf", KDC_CONFIGURATION % {"name": NAME, "port": self.port, "folder": self.folder})
            if attempt == 0:
                self._run("kdb5_util", "create", "-s", "-r", NAME, "-P", "nobody needs to know")
                self._administer(*(f"addprinc -randkey {name}" for name in self.principals))
            if self._serve():
                return
        raise AssertionError("krb5kdc does not start: " + self._log())

    def _serve(self):
        """Starts the KDC, which ends with this process in any case. Returns False if it ended at once."""
        self.kdc = subprocess.Popen(
            [self.programs["setpriv"], "--pdeathsig", "KILL", self.programs["krb5kdc"], "-n", "-r", NAME],
            env=os.environ | self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        deadline, said = time.monotonic() + START_SECONDS, b""
        while b"starting" not in said and time.monotonic() < deadline:
            if select.select([self.kdc.stdout], [], [], 0.5)[0]:
                more = os.read(self.kdc.stdout.fileno(), 4096)
                if not more:
                    break
                said += more
        if b"starting" in said:
            return True
        print(f"krb5kdc on port {self.port}: {said.decode(errors='replace')}", flush=True)
        self.stop()
        return False

    def _log(self):
        with open(f"{self.folder}/kdc.log") as log:
            return log.read()[-2000:]

    def _write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as out:
            out.write(text)

    def _administer(self, *commands):
        """kadmin.local always ends with 0; its messages tell whether it failed."""
        said = self._run("kadmin.local", "-r", NAME, commands="".join(f"{command}\n" for command in commands))
        wrong = [line for line in said.splitlines() if re.search(r" while |does not exist", line)]
        assert not wrong, "kadmin.local: " + "\n".join(wrong)

    def _run(self, name, *arguments, commands=""):
        done = subprocess.run([self.programs[name], *arguments], env=os.environ | self.environment, input=commands,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS)
        assert done.returncode == 0, f"{name} {' '.join(arguments)}: {done.returncode}\n{done.stdout}"
        return done.stdout


def variables(realm):
    """Returns the environment of a command in the realm."""
    found = realm.environment | {"TEST_REALM": NAME}
    for name in (*USERS, *MACHINES):
        suffix = name.replace("/", "_").upper()
        found |= {f"TEST_KEYTAB_{suffix}": realm.keytab(name), f"TEST_CACHE_{suffix}": realm.cache(name)}
    return found | {"KRB5_KTNAME": realm.keytab(*dict.fromkeys(SERVERS)), "KRB5CCNAME": found["TEST_CACHE_ALICE"]}


if __name__ == "__main__":
    run_beside(Realm, variables, __doc__)
