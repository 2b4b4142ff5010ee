// Collects the octets that a TLS session sends, so that many TLS records share one system call. OpenSSL writes into it
// through a BIO, and reads through the same BIO straight from the socket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"

struct bio_st;

namespace penstock::rpc::tls {

// Belongs to one session and its loop.
class SealedOutput {
 public:
  // The room that one more TLS record can take (RFC 8446 §5.2), with its header. A real one takes 17 octets of the 256,
  // so that a KeyUpdate fits as well.
  static constexpr size_t kRecordRoom = 5 + (16 << 10) + 256;

  // `fd` is a connected non-blocking socket. It must stay open as long as this is used.
  SealedOutput(int fd, BufferPool& pool) : fd_(fd), pool_(pool) {}
  SealedOutput(const SealedOutput&) = delete;
  SealedOutput& operator=(const SealedOutput&) = delete;

  // Returns a new BIO of OpenSSL, which refers to this. Null if OpenSSL has no memory. The caller owns the BIO.
  bio_st* MakeBio();

  enum class Io : uint8_t { kDone, kWouldBlock, kLost };
  // Sends collected octets. kDone: all of them have left. kLost: the connection is lost.
  Io Flush();
  // The octets that are collected and not sent.
  size_t pending() const { return end_ - begin_; }
  // The memory that they take.
  size_t memory() const { return buffer_ ? buffer_->capacity() : 0; }
  // Whether one more TLS record has room.
  bool has_room() const { return !buffer_ || buffer_->capacity() - end_ >= kRecordRoom; }
  // From now on a flush by OpenSSL sends nothing: the owner calls Flush(). Otherwise a change of keys would fail when
  // the socket is full.
  void LeaveFlushing() { owner_flushes_ = true; }
  // From now on the session reads an end of the stream.
  void EndReading() { reads_end_ = true; }

 private:
  struct Callbacks;
  // Returns false if the octets have no room.
  bool Append(ConstBytes octets);

  const int fd_;
  BufferPool& pool_;
  BufferRef buffer_;  // only while octets are pending
  size_t begin_ = 0;
  size_t end_ = 0;
  bool reads_end_ = false;
  bool owner_flushes_ = false;
};

}  // namespace penstock::rpc::tls
