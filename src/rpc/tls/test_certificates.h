// Authorities and certificates for tests, as files in a temporary folder.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "rpc/tls/context.h"

namespace penstock::rpc::tls::testing {

struct CertificateFields {
  std::string subject = "peer";
  std::string names{};  // the subjectAltName as in OpenSSL's configuration, for example "DNS:a.example,IP:127.0.0.1"
  std::string usage{};  // the extendedKeyUsage in the same form
  long valid_from = -3600;
  long valid_to = 3600;  // seconds from now
};

// A folder with certificates. The folder disappears with the object.
class TestCertificates {
 public:
  explicit TestCertificates(const std::string& authority = "Authority of tests") {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-tls-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    authority_ = Write("authority", {.subject = authority}, nullptr);
  }
  ~TestCertificates() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestCertificates(const TestCertificates&) = delete;
  TestCertificates& operator=(const TestCertificates&) = delete;

  // The file with the certificate of the authority that signs everything here.
  std::string authority() const { return Path("authority.pem"); }

  // Makes a key and a certificate in the files NAME.key and NAME.pem, or replaces them. The result names them, and the
  // authority.
  Files Issue(const std::string& name, const CertificateFields& fields) {
    Write(name, fields, authority_.get());
    return {.certificate = Path(name + ".pem"), .key = Path(name + ".key"), .authorities = authority()};
  }
  // The file of a name in the folder.
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes the list of revoked certificates behind the certificate of the authority. It revokes `certificate`, a file.
  void Revoke(const std::string& certificate) {
    std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(certificate.c_str(), "r"), &std::fclose);
    X509* revoked = PEM_read_X509(in.get(), nullptr, nullptr, nullptr);
    X509_CRL* list = X509_CRL_new();
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(authority_->certificate));
    ASN1_TIME* now = X509_gmtime_adj(nullptr, -60);
    ASN1_TIME* later = X509_gmtime_adj(nullptr, 3600);
    X509_CRL_set1_lastUpdate(list, now);
    X509_CRL_set1_nextUpdate(list, later);
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked));
    X509_REVOKED_set_revocationDate(entry, now);
    X509_CRL_add0_revoked(list, entry);
    X509_CRL_sort(list);
    X509_CRL_sign(list, authority_->key, EVP_sha256());
    std::unique_ptr<FILE, int (*)(FILE*)> out(std::fopen(authority().c_str(), "a"), &std::fclose);
    PEM_write_X509_CRL(out.get(), list);
    ASN1_TIME_free(now);
    ASN1_TIME_free(later);
    X509_CRL_free(list);
    X509_free(revoked);
  }

 private:
  struct Pair {
    X509* certificate = nullptr;
    EVP_PKEY* key = nullptr;
    ~Pair() {
      X509_free(certificate);
      EVP_PKEY_free(key);
    }
  };

  static void AddExtension(X509* to, X509* issuer, int type, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, type, value.c_str());
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
  }

  // Without an issuer the certificate is that of an authority.
  std::unique_ptr<Pair> Write(const std::string& name, const CertificateFields& fields, const Pair* issuer) {
    auto made = std::make_unique<Pair>();
    made->key = EVP_EC_gen("P-256");
    X509* const certificate = made->certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), fields.valid_from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), fields.valid_to);
    X509_set_pubkey(certificate, made->key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(fields.subject.c_str()), -1, -1, 0);
    X509* const by = issuer ? issuer->certificate : certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(by));
    if (!issuer) {
      AddExtension(certificate, by, NID_basic_constraints, "critical,CA:TRUE");
      AddExtension(certificate, by, NID_key_usage, "critical,keyCertSign,cRLSign");
    }
    if (!fields.names.empty()) AddExtension(certificate, by, NID_subject_alt_name, fields.names);
    if (!fields.usage.empty()) AddExtension(certificate, by, NID_ext_key_usage, fields.usage);
    X509_sign(certificate, issuer ? issuer->key : made->key, EVP_sha256());
    std::unique_ptr<FILE, int (*)(FILE*)> out(std::fopen(Path(name + ".pem").c_str(), "w"), &std::fclose);
    PEM_write_X509(out.get(), certificate);
    std::unique_ptr<FILE, int (*)(FILE*)> key(std::fopen(Path(name + ".key").c_str(), "w"), &std::fclose);
    PEM_write_PrivateKey(key.get(), made->key, nullptr, nullptr, 0, nullptr, nullptr);
    return made;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Pair> authority_;
  long serial_ = 0;
};

}  // namespace penstock::rpc::tls::testing
