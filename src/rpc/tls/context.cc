#include "rpc/tls/context.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cassert>
#include <span>
#include <string_view>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "rpc/tls/certificate.h"

namespace penstock::rpc::tls {
namespace {

// With its length in front (RFC 9289 §7.2, RFC 7301 §3.1).
constexpr unsigned char kAlpn[] = {6, 's', 'u', 'n', 'r', 'p', 'c'};
// TLS 1.3 has no suite without confidentiality among these (RFC 9289 §5). The first of AES is mandatory to implement
// (RFC 8446 §9.1).
constexpr const char* kCipherSuites = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
constexpr int kMostAuthorities = 8;  // in one certification path
// The octets of a peer's certificates together. A peer may send them before it has proved anything.
constexpr long kLongestPath = 16 << 10;

constexpr const char* kAnyUsage = "2.5.29.37.0";
constexpr const char* kServerUsages[] = {"1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.34"};  // id-kp-rpcTLSServer
constexpr const char* kClientUsages[] = {"1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.33"};  // id-kp-rpcTLSClient

// The cause is the first error of OpenSSL's queue; later ones say where it had an effect.
std::string FirstError() {
  const unsigned long error = ERR_peek_error();
  if (ERR_SYSTEM_ERROR(error)) return DescribeErrno(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  return reason ? reason : "unknown error";
}

std::unexpected<SetupError> Fail(std::string_view what, const std::string& file, std::string_view why) {
  ERR_clear_error();
  return std::unexpected(SetupError{fmt::format("TLS {} {}: {}", what, file, why)});
}

// A key that needs a password must not make OpenSSL ask for one on the terminal.
int NoPassword(char* /*to*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

// RFC 7301 §3.2, RFC 9289 §5.
int SelectProtocol(SSL* /*session*/, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                   unsigned offered_size, void* /*unused*/) {
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kAlpn, sizeof kAlpn, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

// Whether the extended key usage of a certificate admits its use (RFC 9289 §5.2.1.1). A certificate without the
// extension is for every use.
bool MayBeUsed(const X509* certificate, std::span<const char* const> usages) {
  auto* const allowed =
      static_cast<EXTENDED_KEY_USAGE*>(X509_get_ext_d2i(certificate, NID_ext_key_usage, nullptr, nullptr));
  if (!allowed) return true;
  bool may = false;
  for (int i = 0; i < sk_ASN1_OBJECT_num(allowed); ++i) {
    char oid[64] = "";
    OBJ_obj2txt(oid, sizeof oid, sk_ASN1_OBJECT_value(allowed, i), 1);
    may |= std::string_view(oid) == kAnyUsage;
    for (const char* usage : usages) may |= std::string_view(oid) == usage;
  }
  EXTENDED_KEY_USAGE_free(allowed);
  return may;
}

// OpenSSL knows the usages of the web only, so this checks the usage itself. The rest is RFC 5280 §6 by OpenSSL.
int VerifyPeer(X509_STORE_CTX* chain, void* of_client) {
  const X509* const certificate = X509_STORE_CTX_get0_cert(chain);
  X509_VERIFY_PARAM_set_purpose(X509_STORE_CTX_get0_param(chain), X509_PURPOSE_ANY);
  if (X509_verify_cert(chain) > 0) {
    if (MayBeUsed(certificate, of_client ? kClientUsages : kServerUsages)) return 1;
    X509_STORE_CTX_set_error(chain, X509_V_ERR_INVALID_PURPOSE);
  }
  // OpenSSL forgets a refused certificate. Session tells the user its names.
  const auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const names = static_cast<std::string*>(SSL_get_app_data(ssl));
  if (names && certificate) *names = Certificate::Of(certificate).NamesToString();
  return 0;
}

SetupResult<void> LoadCertificate(SSL_CTX* context, const Files& files) {
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return Fail("certificate", files.certificate, FirstError());
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    // OpenSSL compares the key with the certificate as soon as it has both.
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
      return Fail("key", files.key, fmt::format("is not the key of the certificate {}", files.certificate));
    }
    return Fail("key", files.key, FirstError() + " (a key with a password cannot be used)");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(context))) < 0) {
    log::warn("the TLS certificate {} has expired: peers will refuse it", files.certificate);
  }
  return {};
}

SetupResult<void> LoadAuthorities(SSL_CTX* context, const std::string& file, bool for_server) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  if (X509_STORE_load_file(store, file.c_str()) != 1) return Fail("authorities", file, FirstError());
  STACK_OF(X509_OBJECT)* const objects = X509_STORE_get0_objects(store);
  for (int i = 0; i < sk_X509_OBJECT_num(objects); ++i) {
    if (X509_OBJECT_get_type(sk_X509_OBJECT_value(objects, i)) == X509_LU_CRL) {
      X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    }
  }
  // A client that has several certificates chooses by these names.
  if (for_server) SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(file.c_str()));
  ERR_clear_error();
  return {};
}

}  // namespace

SetupResult<std::shared_ptr<Context>> Context::Make(const Files& files, bool for_server) {
  ERR_clear_error();
  SSL_CTX* const made = SSL_CTX_new(for_server ? TLS_server_method() : TLS_client_method());
  if (!made) return std::unexpected(SetupError{"TLS: OpenSSL does not start: " + FirstError()});
  std::shared_ptr<Context> context(new Context(made, for_server));
  SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(made, kCipherSuites);
  // No session is ever resumed: a resumption would skip the check of certificates, and could carry early data, which
  // RFC 9289 §6 forbids.
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(made, 0);
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_ENABLE_KTLS | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(made,
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(made, 1);
  SSL_CTX_set_default_passwd_cb(made, &NoPassword);
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_max_cert_list(made, kLongestPath);
  SSL_CTX_set_verify_depth(made, kMostAuthorities);
  SSL_CTX_set_cert_verify_callback(made, &VerifyPeer, for_server ? made : nullptr);
  if (for_server) {
    SSL_CTX_set_alpn_select_cb(made, &SelectProtocol, nullptr);
  } else {
    SSL_CTX_set_alpn_protos(made, kAlpn, sizeof kAlpn);
  }
  if (!files.certificate.empty()) {
    PENSTOCK_CHECK(LoadCertificate(made, files));
    context->has_certificate_ = true;
  }
  if (!files.authorities.empty()) {
    PENSTOCK_CHECK(LoadAuthorities(made, files.authorities, for_server));
  } else if (!for_server) {
    SSL_CTX_set_default_verify_paths(made);
  }
  return context;
}

SetupResult<std::shared_ptr<const Context>> Context::ForServer(const Files& files) {
  assert(!files.certificate.empty() && !files.key.empty());
  return Make(files, true);
}

SetupResult<std::shared_ptr<const Context>> Context::ForClient(const Files& files) { return Make(files, false); }

Context::~Context() { SSL_CTX_free(context_); }

SetupResult<std::shared_ptr<Credentials>> Credentials::Load(Files files) {
  PENSTOCK_TRY(std::shared_ptr<const Context> context, Context::ForServer(files));
  return std::shared_ptr<Credentials>(new Credentials(std::move(files), std::move(context)));
}

std::shared_ptr<const Context> Credentials::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void Credentials::LogRefusal(const IpAddress& client, std::string_view why) const {
  refusals_->Tell({.client = client, .reason = "tls_handshake"}, [why] {
    return RefusalDetails{.text = fmt::format("is refused TLS: the handshake has failed: {}", why)};
  });
}

SetupResult<void> Credentials::Reload() {
  Files files;
  {
    const std::lock_guard lock(mutex_);
    files = files_;
  }
  PENSTOCK_TRY(std::shared_ptr<const Context> fresh, Context::ForServer(files));
  Use(std::move(files), std::move(fresh));
  return {};
}

void Credentials::Use(Files files, std::shared_ptr<const Context> context) {
  const std::lock_guard lock(mutex_);
  files_ = std::move(files);
  current_.swap(context);
}

bool Credentials::has_authorities() const {
  const std::lock_guard lock(mutex_);
  return !files_.authorities.empty();
}

}  // namespace penstock::rpc::tls
