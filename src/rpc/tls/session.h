// A TLS session over a connected socket (RFC 9289 §5, RFC 8446), by OpenSSL: TLS 1.3, ALPN "sunrpc", certificates on
// the server's side, and on the client's side if it has one.
//
// After the handshake the kernel seals what is sent if it can (kernel TLS): then the owner sends plain octets to the
// socket by system calls. Otherwise the session seals them in user space.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "rpc/tls/certificate.h"
#include "rpc/tls/context.h"
#include "rpc/tls/sealed_output.h"

struct ssl_st;

namespace penstock::rpc::tls {

// The requirements of a client.
struct ClientTerms {
  // The host name or the address that the server's certificate must have (RFC 9289 §5.2.1).
  std::string host;
  // Authenticate this client as well, by the certificate of the context, which then must have one. The handshake fails
  // if the server does not ask for it. Otherwise the client stays anonymous.
  bool mutual = false;
};

// Facts about an established session.
struct Facts {
  std::string version;  // "TLSv1.3"
  std::string cipher;   // for example "TLS_AES_256_GCM_SHA384"
  bool kernel_sends = false;
  bool kernel_receives = false;
  // The verified certificate of the peer. Null if it has none: only a client may have none.
  std::shared_ptr<const Certificate> peer{};
  // Whether both sides have authenticated each other.
  bool mutual = false;
  // Whether the peer has named the protocol sunrpc (ALPN). RFC 9289 §5 demands it, and tlshd of Linux does not do it.
  bool named_protocol = true;

  // Returns one line for people, without the peer's names.
  std::string ToString() const;
};

// Belongs to the loop of its connection. The socket belongs to the owner, is not blocking, and outlives the session.
class Session {
 public:
  // The longest piece that Seal() takes: the content of one TLS record.
  static constexpr size_t kPiece = 16 << 10;
  // The records that one key seals. AES-GCM is safe up to 2^24.5 records of full size (RFC 8446 §5.5).
  static constexpr uint64_t kRecordsPerKey = 1 << 23;

  // `pool` must outlive the session.
  static std::unique_ptr<Session> ForServer(std::shared_ptr<const Context> context, int fd, BufferPool& pool);
  static std::unique_ptr<Session> ForClient(std::shared_ptr<const Context> context, int fd, BufferPool& pool,
                                            const ClientTerms& terms);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  enum class Io : uint8_t {
    kDone,
    kWantRead,   // wait until the socket is readable, and call again
    kWantWrite,  // wait until it is writable, and call again
    kEnd,        // the peer has ended the stream: see failure()
    kFailed,     // the session is unusable: see failure()
  };

  // Goes on with the handshake. After kDone the other functions may be used.
  Io Handshake();
  // Receives up to into.size() octets. kDone: at least one octet was received, and their number is in `received`.
  // Afterwards octets may be pending that the session itself has to say.
  Io Read(Bytes into, size_t& received);

  // Whether the peer has ended the session with an alert: failure() has its text.
  bool refused_by_peer() const { return refused_by_peer_; }

  // Returns true if a TLS record has begun to arrive and has not ended. Never true if the kernel receives.
  bool mid_record() const;

  // Seals at most kPiece octets and collects them for Flush(). Requires has_room() and not kernel_sends(). Returns
  // false if the session is unusable. Takes a new key after kRecordsPerKey records. The kernel never does (kernel TLS).
  bool Seal(ConstBytes plain);
  bool has_room() const { return output_.has_room(); }
  // Sends the collected octets: kDone, kWantWrite or kEnd.
  Io Flush();
  size_t pending() const { return output_.pending(); }
  size_t pending_memory() const { return output_.memory(); }

  // Tells the peer that this side ends the session (close_notify, RFC 9289 §5.1.1), as far as the socket takes it at
  // once. Does nothing before the end of the handshake or after a failure.
  void Close();

  // For tests: replaces kRecordsPerKey.
  void set_records_per_key(uint64_t records) { records_per_key_ = records; }

  bool established() const { return established_; }
  // True if the kernel seals: write plain octets to the socket.
  bool kernel_sends() const { return kernel_sends_; }
  // Requires established().
  const Facts& facts() const { return facts_; }
  // Says in one line why the session has failed or ended; empty if the peer has ended it properly.
  const std::string& failure() const { return failure_; }

 private:
  Session(std::shared_ptr<const Context> context, int fd, BufferPool& pool);
  // Installed as OpenSSL's message callback.
  static void SeeMessage(int sent, int version, int type, const void* data, size_t size, ssl_st* ssl, void* self);
  static int SeeRequest(ssl_st* ssl, void* self);
  Io OutcomeOf(int result);
  Io Fail(std::string why);
  Io FailHandshake();
  Io Establish();

  const std::shared_ptr<const Context> context_;
  SealedOutput output_;
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  std::unique_ptr<ssl_st, Free> ssl_;
  ClientTerms terms_;
  std::string refused_names_;  // of a certificate that was refused
  bool asked_for_certificate_ = false;
  bool established_ = false;
  bool failed_ = false;
  bool kernel_sends_ = false;
  bool refused_by_peer_ = false;
  uint64_t records_per_key_ = kRecordsPerKey;
  uint64_t sealed_ = 0;  // the records under the present key
  // The header of a record has arrived, and the record is not complete. OpenSSL counts these octets as processed.
  bool header_seen_ = false;
  // The handshake messages that have arrived since the last octets of RPC.
  unsigned messages_ = 0;
  const char* forbidden_ = nullptr;  // the reason to end the session, found by SeeMessage()
  std::string failure_;
  Facts facts_;
};

}  // namespace penstock::rpc::tls
