// The command line of `penstock serve`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "cli/common_options.h"
#include "cli/listen_options.h"
#include "cli/logging.h"
#include "cli/settings.h"
#include "server/options.h"
#include "server/parts.h"

namespace penstock::cli {

struct ServeOptions {
  std::string directory;
  std::vector<std::string> exports;
  std::vector<std::string> exports_files;  // tables in the syntax of exports(5), or directories of such tables
  ListenOptions listen;
  std::string rpcbind = "auto";  // off, auto or required
  bool port_mapper = false;
  unsigned threads = 0;  // 0: one for each processor
  unsigned workers = 64;
  std::string state_directory;          // empty: DefaultStateDirectory()
  std::string cluster;                  // see fs::ceph::ParseClusterLocation(); empty: none
  std::string metrics;                  // [ADDRESS:]PORT; empty: no port for monitors
  std::string log_format;               // text, json or journal; empty: FormatForStderr()
  std::vector<std::string> log_levels;  // LEVEL or MODULE=LEVEL
  std::string audit;                    // the file of the audit log; empty: there is none
  std::string control;                  // the file of the control socket; empty: in the state directory; "none": none
  std::string control_group;            // the group that may use it; empty: none
  size_t max_connections = 1024;
  size_t max_connections_per_address = 0;  // 0: a quarter of all
  double idle_seconds = 10;
  std::optional<uint64_t> memory;  // bytes; the default: server::DefaultMemory()
  double stall_seconds = 60;
  bool crc = true;
  std::string trace;
  std::string faults;                   // of the served files, for tests: see fs/faulty/fault.h
  std::optional<uint64_t> kept_octets;  // for tests: see nfs::v4::Settings::max_kept_octets
  bool nfs2 = false;
  double lease_seconds = 90;
  double grace_seconds = 90;
  bool delegations = true;
  uint32_t max_delegations = nfs::v4::Settings().max_delegations;
  bool inter_server_copy = false;
  std::optional<std::string> nfs4_domain;  // see ParseDomain()
  bool nfs4_names = false;
  std::string sess01 = "off";  // the sessions of 2004: off, tcp or rdma
  uint32_t sess01_pad = 0;
  std::string keytab;
  rpc::tls::Files tls;
  std::vector<std::string> ccm_from;
  bool manage_gids = false;
  bool as_owner = false;
  RdmaOptions rdma;
  std::optional<uint32_t> rdma_inline;
};

// Adds the options to the command `serve`, which fill `options` when the command line is parsed. Both must outlive the
// settings, which describe the options. Options that only the command line can set belong to serve.cc.
Settings AddServeOptions(CLI::App& command, ServeOptions& options);

// Options that do not go together.
struct Contradiction {
  std::vector<std::string> flags;
  std::string message;
};
std::vector<Contradiction> ContradictionsIn(const ServeOptions& options);

// The server's settings. The error names the option that is wrong. Without --nfs4-domain the domain is empty: the
// caller finds it, since that may take a while.
SetupResult<server::Options> ServerOptionsOf(const ServeOptions& options);

// The form and the levels of log messages. `usual`: the level of all modules if the options name none. Requires options
// that were checked.
LogSettings LogSettingsOf(const ServeOptions& options, log::Level usual);

// All directories to export, with their paths normalized. Reads the tables; their mistakes and doubts become findings.
// An error if there is nothing to export, or if one path is given twice.
SetupResult<std::vector<nfs::ExportSpec>> ExportsOf(const ServeOptions& options, std::vector<Finding>& findings);

}  // namespace penstock::cli
