#include "cli/common_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "client/url.h"
#include "idmap/owner_text.h"

namespace penstock::cli {

namespace {

void AddTlsOptions(CLI::App& command, TlsOptions& options) {
  command
      .add_option(
          "--xprtsec", options.xprtsec,
          "The protection of connections over TCP. tls: TLS, in which the server shows a certificate; mtls: this\n"
          "client as well; opportunistic: TLS if the server has it; none: plain text. The default is that of\n"
          "the URL, or else of PENSTOCK_XPRTSEC, or else none")
      ->check(CLI::IsMember({"none", "opportunistic", "tls", "mtls"}));
  command
      .add_option("--tls-ca", options.files.authorities,
                  "Trust servers whose certificates these authorities have signed; the default is those of the system")
      ->type_name("FILE");
  command.add_option("--tls-cert", options.files.certificate, "The certificate of this client (PEM), for xprtsec=mtls")
      ->type_name("FILE");
  command.add_option("--tls-key", options.files.key, "The key of the certificate, without a password")
      ->type_name("FILE");
}

// Accepts a list of flavors. CLI::IsMember describes its members in the same way, and accepts one of them.
CLI::Validator SecurityFlavors() {
  const auto check = [](const std::string& text) {
    const auto flavors = client::ParseSecurity(text);
    return flavors ? std::string() : flavors.error();
  };
  return CLI::Validator(check, "{none,sys,krb5,krb5i,krb5p}");
}

}  // namespace

void AddRdmaOptions(CLI::App& command, RdmaOptions& options) {
  command
      .add_option("--rdma", options.rdma,
                  "verbs: use an RDMA device; iwarp: use software iWARP; auto: use the RDMA device that has the\n"
                  "address, or else software iWARP")
      ->check(CLI::IsMember({"auto", "verbs", "iwarp"}))
      ->capture_default_str();
  command.add_option("--rdma-device", options.device, "Use only this RDMA device, as `penstock devices` names it");
}

void AddAccessOptions(CLI::App& command, AccessOptions& options) {
  command
      .add_option(
          "-o,--options", options.options,
          "Options as for mount(8), such as `-o soft,timeo=50,nconnect=4`. They are the parameters of URLs, and\n"
          "take precedence over those of the URL; see penstock-url(5)")
      ->type_name("OPTION[,OPTION...]")
      ->allow_extra_args(false);
  command
      .add_option("--vers", options.vers,
                  "Use only this version of NFS: 3, 4.0, 4.1, 4.2, or 4.1-sess01 for the sessions draft of 2004")
      ->check(CLI::IsMember({"3", "4", "4.0", "4.1", "4.2", "4.1-sess01"}));
  command
      .add_option("--sec", options.sec,
                  "Use only this security flavor. krb5: Kerberos proves who the user is; krb5i: and protects all data\n"
                  "from changes; krb5p: and encrypts them. Of several with ':' between them, such as krb5p:krb5i,\n"
                  "use the first one that the server accepts. Without it, the URL decides, or\n"
                  "PENSTOCK_SEC, or the server's preference")
      ->check(SecurityFlavors());
  CLI::Option* const keytab = command
                                  .add_option("--keytab", options.kerberos.keytab,
                                              "Get Kerberos tickets with a key in this file, instead of using the "
                                              "tickets that kinit has got (KRB5CCNAME)")
                                  ->type_name("FILE")
                                  ->envname("PENSTOCK_KEYTAB");
  command
      .add_option("--principal", options.kerberos.principal, "The principal in the keytab; by default the first one")
      ->needs(keytab);
  AddTlsOptions(command, options.tls);
}

void AddTraceOption(CLI::App& command, std::string& file) {
  command.add_option("--trace", file, "Write the traffic of RDMA connections to this file, for Wireshark (pcapng)")
      ->type_name("FILE");
}

void AddClientOptions(CLI::App& command, ClientOptions& options) {
  AddAccessOptions(command, options);
  AddTraceOption(command, options.trace);
  AddRdmaOptions(command, options.rdma);
}

SetupResult<std::optional<std::string>> ParseDomain(const std::optional<std::string>& option) {
  if (option == "none") return "";
  if (option && !idmap::IsDomain(*option)) {
    return std::unexpected(SetupError{
        fmt::format("--nfs4-domain {}: neither none nor the name of a domain such as example.org", *option)});
  }
  return option;
}

CLI::Validator SecondsBetween(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    const bool valid = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return valid ? std::string() : fmt::format("Value {} not in range {} to {}", text, least, most);
  };
  return CLI::Validator(check, fmt::format("FLOAT in [{} - {}]", least, most));
}

rdma::Choice ChoiceOf(const RdmaOptions& options) { return {rdma::ParseKind(options.rdma).value(), options.device}; }

}  // namespace penstock::cli
