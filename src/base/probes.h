// User-space probes (USDT) on one request's way through the layers, for bpftrace, perf and SystemTap: docs/tracing.md
// lists them. A probe that nobody traces is one instruction without an effect (nop). Its arguments must be at hand: a
// probe computes nothing.
#pragma once

#include <sys/sdt.h>

// PENSTOCK_PROBE(3, call__received, xid, connection, octets): a probe with three arguments, which are numbers. It is
// named penstock:call__received.
#define PENSTOCK_PROBE(count, name, ...) DTRACE_PROBE##count(penstock, name, __VA_ARGS__)
