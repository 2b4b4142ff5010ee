// A connected TCP socket that carries records, for server and client alike. Receives and sends by system calls of its own;
// asio says when the socket is ready.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/address.h"
#include "base/loop.h"
#include "rpc/record_marking.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {

// Belongs to its loop. Held by its owner, and by itself while something of it is on its way.
class RecordSocket : public std::enable_shared_from_this<RecordSocket> {
 public:
  // Told when the socket has closed, and when some of what was queued has been sent.
  class Owner {
   public:
    virtual void OnClosed() = 0;
    virtual void OnSent() {}

   protected:
    ~Owner() = default;
  };

  // `socket` is connected; `owner` outlives the RecordSocket, or calls Abandon().
  RecordSocket(Loop& loop, asio::ip::tcp::socket socket, size_t max_record, Owner& owner);

  // The next record: one that has been received, or else waits for it. None at the end of the stream: closed by either
  // side, a record too large, an error; and where a large record needs memory, see awaited(). What was queued by Send() goes
  // out before it waits.
  Task<std::optional<Slice>> Receive();
  // What Receive() would give without waiting.
  std::optional<Slice> TakeReceived();
  // Octets of memory without which the next record is not received: it goes on, with Receive(), after Admit(). Meanwhile the
  // peer is not to blame for the record not getting to its end.
  size_t awaited() const { return ended_ ? 0 : reader_.awaited(); }
  void Admit() { reader_.Admit(); }

  // Queues a message; returns its number for IsSent(). The messages that answer one batch of records share a system call:
  // whoever took a record calls Receive() or Flush() before it waits for anything else. Messages queued at other times go
  // out in the loop's next turn.
  uint64_t Send(Message message);
  void Flush();
  // Whether the message of that number has been handed to the kernel, every octet.
  bool IsSent(uint64_t number) const { return writer_.sent() >= number; }
  size_t queued_octets() const { return writer_.queued_octets(); }
  // See RecordWriter.
  size_t queued_memory() const { return writer_.queued_memory(); }

  // Receive() gives nothing more; what is queued still goes out.
  void StopReceiving();
  // Forgets what was queued, and ends what waits. OnClosed() is called, before this returns, if it was not before.
  void Close();
  bool closed() const { return closed_; }
  SocketAddress local() const;
  void Abandon() { owner_ = nullptr; }

  // To be called at regular intervals: for how many of them in a row a record has begun to be received or sent and not got
  // to its end, for which the peer is to blame.
  int StalledIntervals();

 private:
  enum class Io : uint8_t { kProgress, kWouldBlock, kEnd };

  Io ReceiveSome();
  Io SendSome();
  Io SendMemory();
  Io SendFile(const RecordWriter::FileRange& range);
  Io SendCopy(const RecordWriter::FileRange& range);
  static Task<void> SendRest(std::shared_ptr<RecordSocket> self);

  Loop& loop_;
  asio::ip::tcp::socket socket_;
  Owner* owner_;
  RecordReader reader_;
  RecordWriter writer_;

  bool ended_ = false;  // nothing more is received
  bool closed_ = false;
  bool sending_ = false;   // SendRest() waits for the peer to make room
  bool batching_ = false;  // a record was taken, and Flush() not called since
  bool flush_posted_ = false;

  // For StalledIntervals().
  bool receiving_ = false;  // Receive() waits for the peer
  uint64_t received_ = 0;
  uint64_t received_seen_ = 0;
  uint64_t sent_seen_ = 0;
  int receive_stalled_ = 0;
  int send_stalled_ = 0;
};

// Non-blocking, without Nagle's delay, and with keep-alive, so that a peer that has vanished is noticed.
void Configure(asio::ip::tcp::socket& socket);

}  // namespace penstock::rpc::tcp
