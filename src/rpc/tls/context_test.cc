// Tests of contexts and certificates: the files, their renewal, and names.
#include <fstream>

#include "rpc/tls/session_test.h"

namespace penstock::rpc::tls {
namespace {

TEST_F(TlsSessionTest, NamesTheFileThatCannotBeUsed) {
  const auto missing =
      Context::ForServer({.certificate = "/nonexistent.pem", .key = server_files_.key, .authorities = {}});
  EXPECT_EQ(missing.error().message, "TLS certificate /nonexistent.pem: No such file or directory");
  const auto mixed =
      Context::ForServer({.certificate = server_files_.certificate, .key = client_files_.key, .authorities = {}});
  EXPECT_THAT(mixed.error().message, HasSubstr("is not the key of the certificate"));
  const std::string garbage = certificates_.Path("garbage.pem");
  std::ofstream(garbage) << "no certificate";
  EXPECT_THAT(Context::ForClient({.certificate = {}, .key = {}, .authorities = garbage}).error().message,
              HasSubstr("TLS authorities " + garbage));
}

TEST_F(TlsSessionTest, ReloadsCertificates) {
  auto credentials = Credentials::Load(server_files_);
  ASSERT_TRUE(credentials);
  const auto before = (*credentials)->current();
  certificates_.Issue("server", {.names = "DNS:renewed.example"});
  ASSERT_TRUE((*credentials)->Reload());
  auto client = Context::ForClient(client_files_);
  server_ = Session::ForServer((*credentials)->current(), sockets_.server.get(), pool_);
  client_ = Session::ForClient(*client, sockets_.client.get(), pool_, {.host = "renewed.example"});
  EXPECT_TRUE(Handshake()) << client_->failure();
  EXPECT_NE((*credentials)->current(), before);
}

TEST_F(TlsSessionTest, AFailedReloadChangesNothing) {
  auto credentials = Credentials::Load(server_files_);
  ASSERT_TRUE(credentials);
  const auto before = (*credentials)->current();
  std::ofstream(server_files_.certificate) << "half a certificate";
  const auto reloaded = (*credentials)->Reload();
  ASSERT_FALSE(reloaded);
  EXPECT_THAT(reloaded.error().message, HasSubstr(server_files_.certificate));
  EXPECT_EQ((*credentials)->current(), before);
}

TEST(TlsCertificateTest, ComparesNamesInBothCasesAndAddressesAsNumbers) {
  Certificate certificate;
  certificate.hosts = {"Host.Example", "*.wild.example"};
  certificate.addresses = {asio::ip::make_address("192.0.2.1"), asio::ip::make_address("2001:db8::1")};
  EXPECT_TRUE(certificate.Names("hOST.eXAMPLE"));
  EXPECT_FALSE(certificate.Names("a.wild.example"));
  EXPECT_FALSE(certificate.Names("*.wild.example"));
  EXPECT_TRUE(certificate.Names("2001:DB8:0::1"));
  EXPECT_TRUE(certificate.Names(asio::ip::make_address("::ffff:192.0.2.1")));
  EXPECT_FALSE(certificate.Names("192.0.2.2"));
}

TEST_F(TlsSessionTest, ARenewedCertificateHasTheSameKeyOfNames) {
  const auto key_of = [this](const CertificateFields& fields) {
    const Files files = certificates_.Issue("names", fields);
    std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(files.certificate.c_str(), "r"), &std::fclose);
    X509* const read = PEM_read_X509(in.get(), nullptr, nullptr, nullptr);
    const std::string key = Certificate::Of(read).names_key;
    X509_free(read);
    return key;
  };
  const std::string key = key_of({.subject = "a", .names = "DNS:a.example,DNS:b.example,IP:127.0.0.1"});
  EXPECT_EQ(key, key_of({.subject = "b", .names = "IP:127.0.0.1,DNS:B.example,DNS:a.example"}));
  EXPECT_NE(key, key_of({.subject = "a", .names = "DNS:a.example,DNS:b.example"}));
  EXPECT_NE(key_of({.subject = "a"}), key_of({.subject = "b"}));
}

TEST(TlsCertificateTest, BoundsAndCleansNamesForLogs) {
  Certificate certificate;
  certificate.hosts = {std::string(1000, 'a'), "line\nbreak"};
  for (int i = 0; i < 100; ++i) certificate.hosts.push_back("more");
  const std::string line = certificate.ToString();
  EXPECT_LT(line.size(), 1000u);
  EXPECT_THAT(line, HasSubstr("line?break"));
}

}  // namespace
}  // namespace penstock::rpc::tls
