#include "cli/client_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "cli/mounts.h"

namespace penstock::cli {
namespace {

// Runs `command` and returns what it writes to stderr. Stores the exit code in `code`.
template <class F>
std::string ErrorsOf(F command, int& code) {
  testing::internal::CaptureStderr();
  code = command();
  return testing::internal::GetCapturedStderr();
}

// Commands suspend at least once, because they wait for a server.
Task<client::Result<void>> Succeed(Loop& loop, bool& ran) {
  co_await Sleep(loop, Duration::zero());
  ran = true;
  co_return client::Result<void>();
}

Task<client::Result<void>> Fail(Loop& loop, std::string message) {
  co_await Sleep(loop, Duration::zero());
  co_return std::unexpected(client::Error{std::move(message), std::nullopt});
}

TEST(ClientRuntime, PrintErrorPrintsOneLineAndReturnsOne) {
  int code = 0;
  EXPECT_EQ(ErrorsOf([] { return PrintError("/a {} %s: no such file"); }, code), "penstock: /a {} %s: no such file\n");
  EXPECT_EQ(code, 1);
}

TEST(ClientRuntime, PrintErrorLetsNoServerControlTheTerminal) {
  int code = 0;
  EXPECT_EQ(ErrorsOf([] { return PrintError("/\x1b[2J\nfile: gone"); }, code), "penstock: /?[2J?file: gone\n");
}

TEST(ClientRuntime, ACommandThatSucceedsPrintsNoErrorAndReturnsZero) {
  bool ran = false;
  int code = 1;
  ClientRuntime runtime;
  EXPECT_EQ(ErrorsOf([&] { return runtime.Run(Succeed(runtime.loop(), ran)); }, code), "");
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(ran);
}

TEST(ClientRuntime, ACommandThatFailsPrintsItsErrorAndReturnsOne) {
  int code = 0;
  ClientRuntime runtime;
  EXPECT_EQ(ErrorsOf([&] { return runtime.Run(Fail(runtime.loop(), "a file: denied")); }, code),
            "penstock: a file: denied\n");
  EXPECT_EQ(code, 1);
}

TEST(ClientRuntime, AnErrorHasAHintToWhatMayHelp) {
  int code = 0;
  const auto report = [](const client::Error& error) {
    return [error] {
      ClientRuntime runtime;
      runtime.Report(error);
      return 1;
    };
  };
  EXPECT_EQ(ErrorsOf(report({"nfs://h/a: it is so", client::Status::kWrongSecurity, EPERM}), code),
            "penstock: nfs://h/a: it is so (name another flavor with --sec; `penstock probe HOST` shows those of each "
            "export)\n");
  EXPECT_EQ(ErrorsOf(report({"nfs://h/a: Connection refused", std::nullopt, ECONNREFUSED}), code),
            "penstock: nfs://h/a: Connection refused (`penstock doctor URL` says at which step, and what to try)\n");
  EXPECT_EQ(ErrorsOf(report({"nfs://h/a: is a directory", client::Status::kIsDirectory, EISDIR}), code),
            "penstock: nfs://h/a: is a directory\n");
}

TEST(ClientRuntime, DoesNotRunACommandWhoseTraceCannotBeWritten) {
  bool ran = false;
  int code = 0;
  ClientRuntime runtime("/no such folder/trace");
  EXPECT_EQ(ErrorsOf([&] { return runtime.Run(Succeed(runtime.loop(), ran)); }, code),
            "penstock: cannot write the trace /no such folder/trace: No such file or directory\n");
  EXPECT_EQ(code, 1);
  EXPECT_FALSE(ran);
}

TEST(ClientRuntime, TheVersionOptionReplacesTheVersionOfTheUrl) {
  EXPECT_EQ(
      ParseUrl("nfs://host/?vers=3", {.options = {}, .vers = "4.2", .sec = {}, .kerberos = {}, .tls = {}})->version,
      client::Version::k42);
  EXPECT_EQ(ParseUrl("nfs://host/", {.options = {}, .vers = "4", .sec = {}, .kerberos = {}, .tls = {}})->version,
            client::Version::k41);
  EXPECT_EQ(ParseUrl("nfs://host/?vers=3", {})->version, client::Version::k3);
  EXPECT_EQ(ParseUrl("nfs://host/", {})->version, std::nullopt);
}

TEST(ClientRuntime, TheEnvironmentDecidesTheProtectionThatNeitherOptionNorUrlNames) {
  using nfs_protocol::SecurityFlavor;
  ::setenv("PENSTOCK_SEC", "krb5i", 1);
  ::setenv("PENSTOCK_XPRTSEC", "tls", 1);
  const auto plain = ParseUrl("nfs://host/?proto=tcp", {});
  const auto named = ParseUrl("nfs://host/?proto=tcp&sec=krb5p&xprtsec=none", {});
  const auto replaced =
      ParseUrl("nfs://host/?proto=tcp", {.options = {}, .vers = {}, .sec = "sys", .kerberos = {}, .tls = {}});
  const auto over_rdma = ParseUrl("nfs://host/?proto=rdma", {});
  ::setenv("PENSTOCK_SEC", "krb6", 1);
  const auto refused = ParseUrl("nfs://host/?proto=tcp", {});
  ::unsetenv("PENSTOCK_SEC");
  ::unsetenv("PENSTOCK_XPRTSEC");
  ASSERT_TRUE(plain && named && replaced);
  EXPECT_EQ(plain->security, SecurityFlavor::kKrb5i);
  EXPECT_EQ(plain->transport_security, client::TransportSecurity::kTls);
  EXPECT_EQ(named->security, SecurityFlavor::kKrb5p);
  EXPECT_EQ(named->transport_security, client::TransportSecurity::kNone);
  EXPECT_EQ(replaced->security, SecurityFlavor::kSys);
  ASSERT_FALSE(over_rdma);
  EXPECT_THAT(over_rdma.error().message, ::testing::HasSubstr("RDMA has no TLS; PENSTOCK_XPRTSEC=tls asks for that"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "PENSTOCK_SEC=krb6: sec must be none, sys, krb5, krb5i, krb5p or a list of them such as krb5p:krb5i, and "
            "'krb6' is not");
}

TEST(ClientRuntime, OptionsOfTheCommandLineReplaceThoseOfTheUrlAndTheseThoseOfTheEnvironment) {
  AccessOptions options;
  options.options = {"soft,timeo=50", "retrans=4"};
  ::setenv("PENSTOCK_OPTIONS", "timeo=70,nconnect=3,rsize=4096", 1);
  const auto url = ParseUrl("nfs://host/?timeo=60&rsize=8192", options);
  options.options = {"sotf"};
  const auto refused = ParseUrl("nfs://host/", options);
  ::setenv("PENSTOCK_OPTIONS", "nconnect=17", 1);
  const auto wrong = ParseUrl("nfs://host/", {});
  ::unsetenv("PENSTOCK_OPTIONS");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->recovery.kind, client::RecoveryOptions::Kind::kSoft);
  EXPECT_EQ(url->recovery.timeo, 50u);
  EXPECT_EQ(url->recovery.retrans, 4u);
  EXPECT_EQ(url->read_size, 8192u);
  EXPECT_EQ(url->nconnect, 3u);
  EXPECT_EQ(refused.error().message, "-o sotf: unknown option 'sotf' (is soft meant?)");
  EXPECT_EQ(wrong.error().message, "PENSTOCK_OPTIONS: nconnect=17: nconnect must be a number from 1 to 16");
}

TEST(ClientRuntime, TheEnvironmentNamesCertificatesForTlsOnly) {
  ::setenv("PENSTOCK_TLS_CERT", "client.pem", 1);
  const auto plain = ParseUrl("nfs://host/?proto=tcp", {});
  const auto secured = ParseUrl("nfs://host/?proto=tcp&xprtsec=mtls", {});
  ::unsetenv("PENSTOCK_TLS_CERT");
  EXPECT_TRUE(plain);
  ASSERT_FALSE(secured);
  EXPECT_EQ(secured.error().message,
            "--tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY) belong together: give both");
}

TEST(ClientRuntime, TheVersionOptionDoesNotHideAMalformedVersionOfTheUrl) {
  const auto url = ParseUrl("nfs://host/?vers=5", {.options = {}, .vers = "4.2", .sec = {}, .kerberos = {}, .tls = {}});
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().message, "nfs://host/?vers=5: vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01");
}

// Only software iWARP can turn a TCP connection into an RDMA connection.
TEST(ClientRuntime, RefusesToStepUpWithAnRdmaDevice) {
  for (const auto& [rdma, device] : {std::pair("verbs", ""), std::pair("auto", "nosuch")}) {
    ClientOptions options;
    options.rdma = {rdma, device};
    bool used = false;
    int code = 0;
    const auto run = [&] {
      return RunOnMounts({"nfs://127.0.0.1:1/a?vers=4.1-sess01&proto=stepup&timeout=1"}, options,
                         [&](ClientRuntime& runtime, const Mounted&) { return Succeed(runtime.loop(), used); });
    };
    EXPECT_EQ(ErrorsOf(run, code),
              "penstock: nfs://127.0.0.1:1/a: proto=stepup uses software iWARP, which --rdma verbs and --rdma-device "
              "exclude\n");
    EXPECT_EQ(code, 1);
  }
}

SetupResult<client::Url> ParsedWith(const std::string& url, const TlsOptions& tls) {
  AccessOptions options;
  options.tls = tls;
  return ParseUrl(url, options);
}
std::string ErrorOf(const std::string& url, const TlsOptions& tls) {
  const auto parsed = ParsedWith(url, tls);
  return parsed ? "no error" : parsed.error().message;
}

TEST(ParseUrl, TheOptionOfProtectionReplacesThatOfTheUrl) {
  using enum client::TransportSecurity;
  EXPECT_EQ(ParsedWith("nfs://host/?xprtsec=tls", {})->transport_security, kTls);
  EXPECT_EQ(ParsedWith("nfs://host/?xprtsec=tls", {.xprtsec = "none", .files = {}})->transport_security, kNone);
  EXPECT_EQ(ParsedWith("nfs://host/", {.xprtsec = "mtls", .files = {}})->transport_security, kMutualTls);
  EXPECT_EQ(ErrorOf("nfs://host/?proto=rdma", {.xprtsec = "tls", .files = {}}),
            "nfs://host/?proto=rdma: xprtsec=tls needs proto=tcp: RDMA has no TLS; --xprtsec tls asks for that");
}

TEST(ParseUrl, RejectsFilesOfTlsThatHaveNoEffectOrLackTheirOther) {
  const rpc::tls::Files authorities{.certificate = {}, .key = {}, .authorities = "ca.pem"};
  EXPECT_EQ(ErrorOf("nfs://host/?xprtsec=tls", {.xprtsec = {}, .files = authorities}), "no error");
  EXPECT_EQ(ErrorOf("nfs://host/", {.xprtsec = {}, .files = authorities}),
            "--tls-ca, --tls-cert and --tls-key are without effect: add --xprtsec tls, or xprtsec=tls to the URL");
  const rpc::tls::Files half{.certificate = "own.pem", .key = {}, .authorities = {}};
  EXPECT_EQ(ErrorOf("nfs://host/?xprtsec=mtls", {.xprtsec = {}, .files = half}),
            "--tls-cert and --tls-key (PENSTOCK_TLS_CERT, PENSTOCK_TLS_KEY) belong together: give both");
}

}  // namespace
}  // namespace penstock::cli
