// Options that several commands have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/call_security.h"
#include "rdma/choice/choice.h"
#include "rpc/tls/context.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace penstock::cli {

// Which RDMA to use: "auto", "verbs" or "iwarp"; and with verbs, which device.
struct RdmaOptions {
  std::string rdma = "auto";
  std::string device;
};

// The protection of a client's connections by TLS.
struct TlsOptions {
  std::string xprtsec;  // as in a URL; empty: the URL decides
  rpc::tls::Files files;
};

// How a command uses the servers that its URLs name.
struct AccessOptions {
  // Options of the URL that stand on the command line, as mount(8) writes them: "name,name=value".
  std::vector<std::string> options;
  // The version of NFS and the security flavor that the command insists on, as in a URL; empty: the URL decides.
  std::string vers;
  std::string sec;
  client::KerberosOptions kerberos;
  TlsOptions tls;
};

// The options of each command that is an NFS client.
struct ClientOptions : AccessOptions {
  // The command writes its RDMA connections to this capture file; empty: it writes none.
  std::string trace;
  RdmaOptions rdma;
};

// These add the options to a command, which fill `options` when the command line is parsed.
void AddRdmaOptions(CLI::App& command, RdmaOptions& options);
void AddAccessOptions(CLI::App& command, AccessOptions& options);
void AddTraceOption(CLI::App& command, std::string& file);
void AddClientOptions(CLI::App& command, ClientOptions& options);

// Parses the value of --nfs4-domain. Absent: the domain is to be found (idmap::FindDomain). Empty: "none", no domain.
// The error names the option.
SetupResult<std::optional<std::string>> ParseDomain(const std::optional<std::string>& option);

// Accepts a number of seconds from `least` to `most`. Unlike CLI::Range, it rejects "nan".
CLI::Validator SecondsBetween(double least, double most);

// The options must have been parsed: the parser admits only the three words.
rdma::Choice ChoiceOf(const RdmaOptions& options);

}  // namespace penstock::cli
