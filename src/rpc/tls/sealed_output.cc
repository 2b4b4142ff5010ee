#include "rpc/tls/sealed_output.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>

namespace penstock::rpc::tls {
namespace {

// About half of the cache of a processor, so that the octets are still there when the kernel copies them.
constexpr size_t kCapacity = 128 << 10;

}  // namespace

// The BIO is a filter in front of a socket BIO. The socket BIO lets OpenSSL hand the keys to the kernel, and sends and
// receives once the kernel has them.
struct SealedOutput::Callbacks {
  static SealedOutput& Of(BIO* bio) { return *static_cast<SealedOutput*>(BIO_get_data(bio)); }

  static int Write(BIO* bio, const char* data, size_t size, size_t* written) {
    BIO_clear_retry_flags(bio);
    BIO* const socket = BIO_next(bio);
    if (BIO_get_ktls_send(socket)) {
      const int done = BIO_write_ex(socket, data, size, written);
      BIO_copy_next_retry(bio);
      return done;
    }
    SealedOutput& self = Of(bio);
    const ConstBytes octets = std::as_bytes(std::span(data, size));
    if (!self.Append(octets)) {
      if (self.Flush() == Io::kLost) return 0;
      if (!self.Append(octets)) {
        BIO_set_retry_write(bio);
        return 0;
      }
    }
    *written = size;
    return 1;
  }

  static int Read(BIO* bio, char* to, size_t size, size_t* read) {
    BIO_clear_retry_flags(bio);
    if (Of(bio).reads_end_) return 0;
    const int done = BIO_read_ex(BIO_next(bio), to, size, read);
    BIO_copy_next_retry(bio);
    return done;
  }

  static long Control(BIO* bio, int command, long number, void* pointer) {
    if (command != BIO_CTRL_FLUSH) return BIO_ctrl(BIO_next(bio), command, number, pointer);
    BIO_clear_retry_flags(bio);
    if (Of(bio).owner_flushes_) return 1;
    switch (Of(bio).Flush()) {
      case Io::kDone:
        return 1;
      case Io::kWouldBlock:
        BIO_set_retry_write(bio);
        return -1;
      case Io::kLost:
        break;
    }
    return 0;
  }

  static BIO_METHOD* Make() {
    BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "penstock sealed output");
    BIO_meth_set_write_ex(method, &Write);
    BIO_meth_set_read_ex(method, &Read);
    BIO_meth_set_ctrl(method, &Control);
    return method;
  }
};

bio_st* SealedOutput::MakeBio() {
  static BIO_METHOD* const method = Callbacks::Make();
  BIO* const socket = BIO_new_socket(fd_, BIO_NOCLOSE);
  BIO* const filter = BIO_new(method);
  if (!socket || !filter) {
    BIO_free(socket);
    BIO_free(filter);
    return nullptr;
  }
  BIO_set_data(filter, this);
  BIO_set_init(filter, 1);
  return BIO_push(filter, socket);
}

bool SealedOutput::Append(ConstBytes octets) {
  if (!buffer_) buffer_ = pool_.Allocate(kCapacity);
  if (octets.size() > buffer_->capacity() - end_) return false;
  CopyBytes(buffer_->bytes().subspan(end_), octets);
  end_ += octets.size();
  return true;
}

SealedOutput::Io SealedOutput::Flush() {
  while (begin_ < end_) {
    const ssize_t n = ::send(fd_, buffer_->data() + begin_, end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Io::kWouldBlock : Io::kLost;
    begin_ += static_cast<size_t>(n);
  }
  begin_ = end_ = 0;
  buffer_.Reset();
  return Io::kDone;
}

}  // namespace penstock::rpc::tls
