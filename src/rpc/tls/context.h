// The settings that all TLS sessions of a server or of a client share: TLS 1.3 only, the ALPN identifier "sunrpc", the
// own certificate and key, and the authorities that the peer's certificate must lead to (RFC 9289 §5).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/address.h"
#include "base/refusal_log.h"
#include "base/result.h"
#include "base/timer.h"

struct ssl_ctx_st;

namespace penstock::rpc::tls {

// Files in PEM format. An empty name means that there is no such file.
struct Files {
  std::string certificate;  // with the certificates of intermediate authorities behind it
  std::string key;          // of the certificate; it must not need a password
  // The certificates of the authorities that are trusted. It may also have their revocation lists (RFC 5280 §6.3): then
  // each certificate of a peer must be on none, and a list that is out of date refuses everybody.
  std::string authorities;
};

// Immutable. Any thread may use it.
class Context {
 public:
  // For a server: `files` must name a certificate and a key. The server asks each client for a certificate (RFC 9289
  // §4.2), and accepts clients without one. Without `authorities` it refuses every certificate of a client. The error
  // names the file.
  static SetupResult<std::shared_ptr<const Context>> ForServer(const Files& files);
  // For a client. Without `authorities` it trusts those of the system.
  static SetupResult<std::shared_ptr<const Context>> ForClient(const Files& files);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The application data (SSL_set_app_data) of a session of this context may be a std::string*: if the peer's
  // certificate is refused, its names are written there.
  ssl_ctx_st* get() const { return context_; }
  bool for_server() const { return for_server_; }
  bool has_certificate() const { return has_certificate_; }

 private:
  Context(ssl_ctx_st* context, bool for_server) : context_(context), for_server_(for_server) {}
  static SetupResult<std::shared_ptr<Context>> Make(const Files& files, bool for_server);

  ssl_ctx_st* const context_;
  const bool for_server_;
  bool has_certificate_ = false;
};

// The context of a server, which an operator can renew while the server runs. Thread-safe.
class Credentials {
 public:
  static SetupResult<std::shared_ptr<Credentials>> Load(Files files);

  // The context for a new session. Sessions that exist keep theirs.
  std::shared_ptr<const Context> current() const;
  // Reads the files again. If one of them is not usable, returns the reason, and changes nothing.
  SetupResult<void> Reload();
  // Reads other files, which name a certificate and a key, without using them yet.
  static SetupResult<std::shared_ptr<const Context>> Read(const Files& files) { return Context::ForServer(files); }
  // New sessions use the context that Read() has made of these files.
  void Use(Files files, std::shared_ptr<const Context> context);
  // Logs a handshake with a client that has failed, and why, at a limited rate, so that strangers do not fill the log.
  void LogRefusal(const IpAddress& client, std::string_view why) const;
  // Logs them there from now on, before the first connection.
  void LogTo(std::shared_ptr<RefusalLog> refusals) { refusals_ = std::move(refusals); }
  bool has_authorities() const;

 private:
  Credentials(Files files, std::shared_ptr<const Context> context)
      : files_(std::move(files)), current_(std::move(context)) {}

  mutable std::mutex mutex_;  // guards the next two
  Files files_;
  std::shared_ptr<const Context> current_;
  std::shared_ptr<RefusalLog> refusals_ = std::make_shared<RefusalLog>();
};

}  // namespace penstock::rpc::tls
