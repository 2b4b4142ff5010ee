#include "rpc/tls/session.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <utility>

namespace penstock::rpc::tls {
namespace {

// A peer that sends more messages of the TLS protocol than this without any octet of RPC wants to keep us busy.
constexpr unsigned kMostMessages = 32;
// Several TLS records are received by one system call.
constexpr size_t kReadBuffer = 4 * SealedOutput::kRecordRoom;
constexpr std::string_view kProtocol = "sunrpc";

// Lets OpenSSL hand the keys to the kernel, if the kernel has TLS (CONFIG_TLS, module tls). Without it this fails.
void OfferKernelTls(int fd) {
  constexpr char kName[] = "tls";
  ::setsockopt(fd, IPPROTO_TCP, TCP_ULP, kName, sizeof kName);
}

bool IsAddress(const std::string& host) {
  asio::error_code error;
  asio::ip::make_address(host, error);
  return !error;
}

// The texts of OpenSSL for the alerts of a peer are like "tlsv1 alert unknown ca".
std::string ReasonOf(unsigned long error) {
  if (ERR_SYSTEM_ERROR(error)) return DescribeErrno(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  return reason ? reason : "unknown error";
}

bool IsAlert(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET;
}

// Whether a message of TLS changes a key that the kernel uses: a KeyUpdate changes the peer's key, and if it asks for
// that, this side's (RFC 8446 §4.6.3).
bool ChangesKernelKey(ConstBytes message, const Facts& facts) {
  constexpr size_t kRequestAt = 4;
  if (message[0] != std::byte{SSL3_MT_KEY_UPDATE}) return false;
  const bool requested = message.size() > kRequestAt && message[kRequestAt] != std::byte{0};
  return facts.kernel_receives || (facts.kernel_sends && requested);
}

// The text for the verification result of a peer's certificate. `names` are those of the certificate.
std::string DescribeRefusal(long result, const std::string& host, const std::string& names, bool of_client) {
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format(
          "the server's certificate does not name {}, it names {}: use one of its names in the URL, or give the server "
          "a certificate with this name as a subjectAltName",
          host, names);
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("the {}'s certificate is not valid now ({}): renew it, or correct the clock",
                         of_client ? "client" : "server", X509_verify_cert_error_string(result));
    case X509_V_ERR_UNABLE_TO_GET_CRL:
      return fmt::format(
          "the {}'s certificate cannot be checked, because its authority has no revocation list: if the file of "
          "--tls-ca "
          "has a list of one authority, it needs one of each",
          of_client ? "client" : "server");
    case X509_V_ERR_INVALID_PURPOSE:
      return fmt::format("the {0}'s certificate has an extended key usage that is not for a {0}",
                         of_client ? "client" : "server");
    default:
      return fmt::format(
          "the {}'s certificate is not trusted ({}): {}", of_client ? "client" : "server",
          X509_verify_cert_error_string(result),
          of_client ? "--tls-ca must name its authority" : "--tls-ca FILE names the authority that has signed it");
  }
}

}  // namespace

std::string Facts::ToString() const {
  const char* kernel = kernel_sends && kernel_receives ? "kernel"
                       : kernel_sends                  ? "kernel for sending, user space for receiving"
                                                       : "user space";
  return fmt::format("{}, {}, {}, TLS in the {}{}", version, cipher,
                     mutual ? "both sides authenticated" : "only the server authenticated", kernel,
                     named_protocol ? "" : ", no protocol named (ALPN)");
}

void Session::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

Session::Session(std::shared_ptr<const Context> context, int fd, BufferPool& pool)
    : context_(std::move(context)), output_(fd, pool), ssl_(SSL_new(context_->get())) {
  BIO* const bio = ssl_ ? output_.MakeBio() : nullptr;
  if (!bio) {
    Fail("no memory for a TLS session");
    return;
  }
  OfferKernelTls(fd);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_msg_callback(ssl_.get(), &SeeMessage);
  SSL_set_msg_callback_arg(ssl_.get(), this);
  SSL_set_app_data(ssl_.get(), &refused_names_);
}

Session::~Session() = default;

std::unique_ptr<Session> Session::ForServer(std::shared_ptr<const Context> context, int fd, BufferPool& pool) {
  assert(context->for_server());
  std::unique_ptr<Session> session(new Session(std::move(context), fd, pool));
  if (!session->failed_) SSL_set_accept_state(session->ssl_.get());
  return session;
}

std::unique_ptr<Session> Session::ForClient(std::shared_ptr<const Context> context, int fd, BufferPool& pool,
                                            const ClientTerms& terms) {
  assert(!context->for_server() && (!terms.mutual || context->has_certificate()));
  std::unique_ptr<Session> session(new Session(std::move(context), fd, pool));
  session->terms_ = terms;
  if (session->failed_) return session;
  SSL* const ssl = session->ssl_.get();
  SSL_set_connect_state(ssl);
  if (!terms.mutual) SSL_certs_clear(ssl);
  SSL_set_cert_cb(ssl, &SeeRequest, session.get());
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  bool set = false;
  if (IsAddress(terms.host)) {
    set = X509_VERIFY_PARAM_set1_ip_asc(wanted, terms.host.c_str()) == 1;
  } else {
    // RFC 9289 §5.2.1: names are in subjectAltName, and have no wildcards.
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    set = X509_VERIFY_PARAM_set1_host(wanted, terms.host.data(), terms.host.size()) == 1 &&
          SSL_set_tlsext_host_name(ssl, terms.host.c_str()) == 1;
  }
  // Without an expected name OpenSSL would accept every name.
  if (!set || terms.host.empty()) session->Fail(fmt::format("\"{}\" cannot be checked in a certificate", terms.host));
  return session;
}

int Session::SeeRequest(ssl_st* /*ssl*/, void* self) {
  static_cast<Session*>(self)->asked_for_certificate_ = true;
  return 1;
}

// OpenSSL handles messages of TLS within SSL_read(), for as long as they arrive. This bounds them.
void Session::SeeMessage(int sent, int /*version*/, int type, const void* data, size_t size, ssl_st* /*ssl*/,
                         void* self) {
  auto& session = *static_cast<Session*>(self);
  if (sent) return;
  if (type == SSL3_RT_HEADER) session.header_seen_ = true;
  if (type == SSL3_RT_INNER_CONTENT_TYPE) session.header_seen_ = false;  // the record is opened
  if (type != SSL3_RT_HANDSHAKE || size == 0 || !session.established_) return;
  if (++session.messages_ > kMostMessages) {
    session.forbidden_ = "the peer sends too many TLS messages without data";
  } else if (ChangesKernelKey(ConstBytes(static_cast<const std::byte*>(data), size), session.facts_)) {
    // OpenSSL would go on with a new key, and the kernel with the old one.
    session.forbidden_ = "the peer changes its TLS key, which kernel TLS cannot follow";
  }
  if (session.forbidden_) session.output_.EndReading();
}

Session::Io Session::Fail(std::string why) {
  failed_ = true;
  failure_ = std::move(why);
  ERR_clear_error();
  return Io::kFailed;
}

Session::Io Session::OutcomeOf(int result) {
  const unsigned long error = ERR_peek_last_error();
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Io::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Io::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Io::kEnd;
    case SSL_ERROR_SSL:
      // RFC 8446 §6.1: an end without close_notify is a lost connection.
      if (ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) break;
      refused_by_peer_ = IsAlert(error);
      if (refused_by_peer_) return Fail(fmt::format("the peer has ended TLS ({})", ReasonOf(error)));
      return Fail(ReasonOf(error));
    default:
      break;
  }
  failed_ = true;  // nothing more can be sent
  failure_ = "the connection was lost";
  ERR_clear_error();
  return Io::kEnd;
}

Session::Io Session::FailHandshake() {
  const unsigned long error = ERR_peek_last_error();
  const long refusal = SSL_get_verify_result(ssl_.get());
  std::string why;
  if (IsAlert(error)) {
    why =
        fmt::format("the {} refuses the handshake ({})", context_->for_server() ? "client" : "server", ReasonOf(error));
  } else if (refusal != X509_V_OK) {
    why = DescribeRefusal(refusal, terms_.host, refused_names_, context_->for_server());
  } else if (ERR_GET_REASON(error) == SSL_R_NO_APPLICATION_PROTOCOL) {
    why = "the client does not offer the protocol sunrpc (ALPN)";
  } else if (ERR_GET_REASON(error) == SSL_R_UNSUPPORTED_PROTOCOL || ERR_GET_REASON(error) == SSL_R_WRONG_SSL_VERSION) {
    why = "the peer does not speak TLS 1.3";
  } else {
    why = ReasonOf(error);
  }
  output_.Flush();  // the alert that tells the peer, as far as the socket takes it
  return Fail(std::move(why));
}

Session::Io Session::Handshake() {
  if (failed_) return Io::kFailed;
  assert(!established_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return Establish();
  const int outcome = SSL_get_error(ssl_.get(), result);
  if (outcome == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_last_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return FailHandshake();
  }
  const Io io = OutcomeOf(result);
  if (io != Io::kEnd) return io;
  return Fail("the peer has closed the connection during the handshake");
}

Session::Io Session::Establish() {
  const auto refuse = [&](std::string why) {
    SSL_shutdown(ssl_.get());
    output_.Flush();
    return Fail(std::move(why));
  };
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  // RFC 9289 §5: both sides must name the protocol. Linux names none (tlshd of ktls-utils 1.0), so that silence must be
  // tolerated. Another protocol is not.
  if (size > 0 && std::string_view(reinterpret_cast<const char*>(protocol), size) != kProtocol) {
    return refuse(
        fmt::format("the {} names another protocol than sunrpc (ALPN)", context_->for_server() ? "client" : "server"));
  }
  if (terms_.mutual && !asked_for_certificate_) {
    return refuse("the server does not ask for this client's certificate, which xprtsec=mtls requires");
  }
  const X509* const peer = SSL_get0_peer_certificate(ssl_.get());
  assert(context_->for_server() || peer);
  facts_.version = SSL_get_version(ssl_.get());
  facts_.cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(ssl_.get()));
  facts_.kernel_sends = kernel_sends_ = BIO_get_ktls_send(SSL_get_wbio(ssl_.get()));
  facts_.kernel_receives = BIO_get_ktls_recv(SSL_get_rbio(ssl_.get()));
  if (peer) facts_.peer = std::make_shared<const Certificate>(Certificate::Of(peer));
  facts_.named_protocol = size > 0;
  facts_.mutual = context_->for_server() ? peer != nullptr : terms_.mutual;
  SSL_set_default_read_buffer_len(ssl_.get(), kReadBuffer);
  output_.LeaveFlushing();
  established_ = true;
  return Io::kDone;
}

Session::Io Session::Read(Bytes into, size_t& received) {
  assert(established_);
  if (failed_) return Io::kFailed;
  ERR_clear_error();
  const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &received);
  if (forbidden_) return Fail(forbidden_);
  if (result != 1) return OutcomeOf(result);
  messages_ = 0;
  return Io::kDone;
}

bool Session::mid_record() const {
  if (!established_ || facts_.kernel_receives) return false;
  return header_seen_ || SSL_has_pending(ssl_.get()) == 1;
}

bool Session::Seal(ConstBytes plain) {
  assert(established_ && !kernel_sends_ && has_room() && !plain.empty() && plain.size() <= kPiece);
  if (failed_) return false;
  ERR_clear_error();
  // The change is a short record in front of the next one. The room for a record suffices for both.
  if (++sealed_ > records_per_key_) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    sealed_ = 1;
  }
  size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written);
  if (result == 1 && written == plain.size()) return true;
  OutcomeOf(result);
  failed_ = true;
  return false;
}

Session::Io Session::Flush() {
  switch (output_.Flush()) {
    case SealedOutput::Io::kDone:
      return Io::kDone;
    case SealedOutput::Io::kWouldBlock:
      return Io::kWantWrite;
    case SealedOutput::Io::kLost:
      break;
  }
  failed_ = true;
  return Io::kEnd;
}

void Session::Close() {
  if (!established_ || failed_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  output_.Flush();
  failed_ = true;
}

}  // namespace penstock::rpc::tls
