#include "cli/client_runtime.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "base/signal.h"
#include "cli/client_config.h"
#include "cli/printable.h"
#include "cli/url_sources.h"
#include "idmap/database.h"
#include "idmap/domain.h"
#include "rdma/trace/provider.h"

namespace penstock::cli {

namespace {

// Sets an option that the command line does not set.
void FillFromEnvironment(std::string& option, const char* variable) {
  const char* const text = ValueInEnvironment(variable);
  if (option.empty() && text) option = text;
}

// A command that goes into the background leaves its directory.
void MakeAbsolute(std::string& file) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(file, error);
  if (!file.empty() && !error) file = absolute;
}

client::KerberosOptions WithPrincipal(client::KerberosOptions options) {
  // Others have a type, as "MEMORY:name".
  constexpr std::string_view kFile = "FILE:";
  if (options.keytab.starts_with(kFile)) options.keytab.erase(0, kFile.size());
  if (!options.keytab.contains(':')) MakeAbsolute(options.keytab);
  if (!options.keytab.empty()) FillFromEnvironment(options.principal, "PENSTOCK_PRINCIPAL");
  return options;
}

// Returns what may help against the error; nothing if the error says all.
std::string_view HintFor(const client::Error& error) {
  switch (error.status.value_or(client::Status::kOk)) {
    case client::Status::kAccess:
    case client::Status::kNotPermitted:
      if (::geteuid() != 0) return {};
      return "root is another user on the server unless the export has no_root_squash; see the server's log";
    case client::Status::kWrongSecurity:
      return "name another flavor with --sec; `penstock probe HOST` shows those of each export";
    default:
      break;
  }
  const bool is_unreachable = error.number == ECONNREFUSED || error.number == ETIMEDOUT || error.number == EHOSTUNREACH;
  if (!error.status && is_unreachable) return "`penstock doctor URL` says at which step, and what to try";
  return {};
}

}  // namespace

ClientRuntime::ClientRuntime(const std::string& trace, const RdmaOptions& rdma, client::KerberosOptions kerberos)
    : choice_(ChoiceOf(rdma)), kerberos_(WithPrincipal(std::move(kerberos))) {
  if (!trace.empty()) trace_ = rdma::trace::File::Open(trace, rdma::trace::File::RealEpoch());
}
ClientRuntime::~ClientRuntime() { workers_.Join(); }

client::MountOptions ClientRuntime::MountOptionsFor(const client::Url& url) {
  rdma::iwarp::Options options;
  options.crc = url.crc;
  const auto trace = [this](std::unique_ptr<rdma::Provider> provider) -> std::unique_ptr<rdma::Provider> {
    if (!*trace_) return provider;
    return std::make_unique<rdma::trace::Provider>(std::move(provider), **trace_, loop_);
  };
  providers_.push_back(std::make_unique<rdma::ChoosingProvider>(choice_, loop_, options, registry_, trace));
  client::MountOptions mount_options;
  mount_options.provider = providers_.back().get();
  mount_options.lock_records = lock_records_;
  mount_options.trusts_directories_for = trust_in_directories_;
  mount_options.initiators = client::KerberosInitiators(kerberos_);
  if (owners_) mount_options.owners = &*owners_;
  if (!wants_delegations_) mount_options.delegations = 0;
  return mount_options;
}

Task<client::Result<std::unique_ptr<client::Mount>>> ClientRuntime::OpenMount(const client::Url& url) {
  const client::MountOptions options = MountOptionsFor(url);
  co_return co_await OpenMount(url, options);
}

Task<client::Result<std::unique_ptr<client::Mount>>> ClientRuntime::OpenMount(const client::Url& url,
                                                                              client::MountOptions options) {
  if (url.protocol == client::Protocol::kStepUp && !choice_.allows_iwarp()) {
    // Run() needs commands that suspend.
    co_await Sleep(loop_, Duration::zero());
    constexpr auto kWhy = "proto=stepup uses software iWARP, which --rdma verbs and --rdma-device exclude";
    co_return std::unexpected(client::Error{fmt::format("{}: {}", url.host, kWhy), std::nullopt});
  }
  co_return co_await client::Mount::Open(loop_, workers_, url, std::move(options));
}

Task<void> ClientRuntime::MapOwners(std::optional<std::string> domain) {
  if (!domain) domain = co_await Offload(loop_, workers_, [] { return idmap::FindDomain().name; });
  lookups_.emplace(&idmap::AskHost, loop_, idmap::Lookups::OnThreads());
  owners_.emplace(*std::move(domain), *lookups_);
}

Task<void> ClientRuntime::End(std::unique_ptr<client::Mount> mount) {
  co_await mount->Unmount();
  // Connections that close need one more turn of the loop, in which none of their own code runs.
  co_await Sleep(loop_, Duration::zero());
}

Task<client::Result<void>> ClientRuntime::WithMount(const client::Url& url, Use use) {
  PENSTOCK_CO_TRY(auto mount, co_await OpenMount(url));
  co_return co_await UseMount(std::move(mount), std::move(use));
}

Task<client::Result<void>> ClientRuntime::UseMount(std::unique_ptr<client::Mount> mount, Use use) {
  client::Result<void> result = co_await use(*mount);
  if (!result) result = std::unexpected(client::WithTrouble(std::move(result).error(), mount->trouble()));
  co_await End(std::move(mount));
  co_return result;
}

int ClientRuntime::Run(Task<client::Result<void>> command) {
  if (!trace_) return PrintError(trace_.error().message);
  std::optional<client::Result<void>> result;
  Spawn([](Task<client::Result<void>> task, Loop& loop, std::optional<client::Result<void>>& out) -> Task<void> {
    out.emplace(co_await std::move(task));
    // The loop runs on until the connections that the command closed have ended; none takes long.
    loop.Finish();
  }(std::move(command), loop_, result));
  loop_.Run();
  if (!*result) Report(result->error());
  return failed_ ? 1 : 0;
}

void ClientRuntime::Report(const client::Error& error) {
  const std::string_view hint = HintFor(error);
  PrintError(hint.empty() ? error.message : fmt::format("{} ({})", error.message, hint));
  failed_ = true;
}

SetupResult<client::Url> ParseUrl(const std::string& text, const AccessOptions& options,
                                  std::vector<client::UrlOption> defaults) {
  const auto fail = [](std::string_view why) { return std::unexpected(SetupError{std::string(why)}); };
  const TlsOptions& tls = options.tls;
  PENSTOCK_TRY(const std::vector<client::UrlOption> config, OptionsOfConfig(client::Url::HostOf(text).value_or("")));
  std::ranges::copy(config, std::back_inserter(defaults));
  std::ranges::copy(OptionsOfEnvironment(), std::back_inserter(defaults));
  PENSTOCK_TRY(client::Url url, client::Url::Parse(text, defaults, OptionsOfFlags(options)));
  rpc::tls::Files files = tls.files;
  if (url.transport_security != client::TransportSecurity::kNone) {
    FillFromEnvironment(files.authorities, "PENSTOCK_TLS_CA");
    if (files.certificate.empty() && files.key.empty()) {
      FillFromEnvironment(files.certificate, "PENSTOCK_TLS_CERT");
      FillFromEnvironment(files.key, "PENSTOCK_TLS_KEY");
    }
  }
  if (files.certificate.empty() != files.key.empty()) {
    return fail("--tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY) belong together: give both");
  }
  const bool has_files = !files.certificate.empty() || !files.authorities.empty();
  if (has_files && url.transport_security == client::TransportSecurity::kNone) {
    return fail("--tls-ca, --tls-cert and --tls-key are without effect: add --xprtsec tls, or xprtsec=tls to the URL");
  }
  for (std::string* const file : {&files.authorities, &files.certificate, &files.key}) MakeAbsolute(*file);
  if (has_files) url.tls = std::make_shared<client::TlsClient>(files);
  return url;
}

std::string ErrorLine(const std::string& message) { return fmt::format("penstock: {}\n", Printable(message)); }

int PrintError(const std::string& message) {
  // Not fmt::print(), which throws if stderr takes nothing.
  std::fputs(ErrorLine(message).c_str(), stderr);
  return 1;
}

int PrintUsageError(const std::string& message) {
  PrintError(message);
  return 2;
}

}  // namespace penstock::cli
