#!/usr/bin/python3
"""confined.py UNIT PROGRAM [ARGUMENT...]: runs the program with the capabilities and the system calls that a unit of systemd allows."""

import ctypes
import os
import re
import subprocess
import sys

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SCMP_ACT_ALLOW, SCMP_ACT_EPERM, SCMP_NO_SYSCALL = 0x7fff0000, 0x00050001, -1
# include/uapi/linux/capability.h
CAPABILITIES = ("chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service net_broadcast "
                "net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice "
                "sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm "
                "block_suspend audit_read perfmon bpf checkpoint_restore").split()


def setting(unit, name):
    with open(unit) as text:
        return re.search(rf"^{name}=(.*)$", text.read(), re.M)[1].split()


def calls_of(names):
    """Expands sets such as @system-service."""
    found = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        said = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], stdout=subprocess.PIPE, text=True, check=True).stdout
        found |= calls_of([line.strip() for line in said.splitlines()[1:] if line.strip() and not line.strip().startswith("#")])
    return found


def main():
    unit, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    allowed = {each.removeprefix("CAP_").lower() for each in setting(unit, "CapabilityBoundingSet")}
    assert allowed <= set(CAPABILITIES), allowed
    calls = calls_of(setting(unit, "SystemCallFilter"))
    for number, name in enumerate(CAPABILITIES):
        if name not in allowed:
            assert libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0, name
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_init.argtypes = [ctypes.c_uint32]
    seccomp.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = seccomp.seccomp_init(SCMP_ACT_EPERM)
    for name in calls:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # this processor has the call
            assert seccomp.seccomp_rule_add(rules, SCMP_ACT_ALLOW, number, 0) == 0, name
    assert seccomp.seccomp_load(rules) == 0
    os.execv(command[0], command)


main()
