// A connected TCP socket that carries records, for both servers and clients. It makes its own system calls to receive
// and send; asio only tells when the socket is ready. From some record on, it may carry them within a TLS session
// (RFC 9289 §5.1.1).
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/loop.h"
#include "base/loop_turn.h"
#include "base/released_socket.h"
#include "base/result.h"
#include "rpc/record_marking.h"
#include "rpc/tls/session.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {

class HandshakeGate;

// A RecordSocket belongs to its loop. Its owner holds it, and its own coroutines hold it while they run.
class RecordSocket : public std::enable_shared_from_this<RecordSocket> {
 public:
  // The socket tells its owner when it has closed, and when it has sent queued octets.
  class Owner {
   public:
    virtual void OnClosed() = 0;
    virtual void OnSent() {}

   protected:
    ~Owner() = default;
  };

  // `socket` must be connected. `owner` must outlive the RecordSocket, or call Abandon().
  RecordSocket(Loop& loop, asio::ip::tcp::socket socket, size_t max_record, Owner& owner);

  // Carries all further octets within `session`, whose handshake is done. Requires that nothing was received and that
  // nothing is queued.
  void Secure(std::unique_ptr<tls::Session> session);
  // Waits for a client's ClientHello, does the handshake of `session`, and secures the socket with it. Requires
  // quiet(). Each step of the handshake waits for its turn at `gate`. If the handshake fails, the socket is closed, or
  // receives nothing more. The error says why; it is empty if this side has closed the socket or stops receiving.
  // Octets that are no TLS get no answer (RFC 9289 §5.1.1). The time counts as a stall of the peer.
  Task<Result<void, std::string>> AcceptTls(std::unique_ptr<tls::Session> session, HandshakeGate& gate);
  // Whether AcceptTls() is under way.
  bool handshaking() const { return handshaking_; }
  // Null without TLS.
  const tls::Session* tls() const { return tls_.get(); }

  // Returns the next record, and waits for it if necessary. Before it waits, it flushes the messages that Send() has
  // queued. Returns none at the end of the stream: either side has closed the connection, a record is too large, or an
  // error has occurred. Also returns none if a large record needs memory; see awaited().
  Task<std::optional<Slice>> Receive();
  // Returns the next record if it has been received completely; does not wait.
  std::optional<Slice> TakeReceived();
  // The memory that a large record needs. While it is not 0, the socket receives nothing. The owner calls Admit() when
  // the memory is available, and then Receive() again. This time does not count as a stall of the peer.
  size_t awaited() const { return ended_ ? 0 : reader_.awaited(); }
  void Admit() { reader_.Admit(); }

  // Counts the memory for a record that the owner has handled, beside the octets that were received and sent. Returns
  // true, and flushes, if others shall have their turn, because of the octets or of the time: the owner then waits for
  // NextTurn(). Receive() and the sending of messages wait in the same way. Without that, a peer that sends or reads
  // all the time, or whose calls take long, would take the loop from all other connections. Also flushes the first few
  // messages of a turn, so that the peer need not wait for the others.
  bool EndsTurn(size_t memory);
  // The owner has waited for anything but Receive(): others have had their turn.
  void BeginTurn();

  // Queues a message and returns its number, for IsSent(). The replies to a batch of records share few system calls.
  // Therefore a caller that has taken a record must call Receive() or Flush() before it waits for anything else.
  // Messages that are queued at other times leave in the next turn of the loop.
  uint64_t Send(Message message);
  void Flush();
  // Returns true if all octets of the message with this number have been passed to the kernel, or sealed for it. The
  // socket then reads the memory of the message no more.
  bool IsSent(uint64_t number) const { return writer_.sent() >= number; }
  // Includes sealed octets that have not left.
  size_t queued_octets() const { return writer_.queued_octets() + sealed_octets(); }
  // See RecordWriter::queued_memory().
  size_t queued_memory() const { return writer_.queued_memory() + (tls_ ? tls_->pending_memory() : 0); }

  // Receive() returns no more records. Queued messages are still sent.
  void StopReceiving();
  // Closes the socket, discards queued messages and ends all waits. Calls OnClosed() before it returns, unless the
  // socket is already closed.
  void Close();
  bool closed() const { return closed_; }
  // Returns true if all messages are sent, and no octet has arrived behind the last record that was taken. Also looks
  // at the octets that wait in the kernel. Always false with TLS.
  bool quiet();
  // Gives the socket away, for another protocol on the same connection. Returns nothing, and changes nothing, if the
  // socket is closed or has TLS, if a message is not sent completely, or if a record has begun to arrive. Afterwards
  // the RecordSocket is closed, without a call of OnClosed(): a waiting Receive() returns none.
  std::optional<ReleasedSocket> Release();
  SocketAddress local() const;
  int fd() { return socket_.native_handle(); }
  void Abandon() { owner_ = nullptr; }

  // Must be called at regular intervals. Returns the number of consecutive intervals in which the peer has not finished
  // a record that it is sending or reading, or the TLS handshake.
  int StalledIntervals();

 private:
  enum class Io : uint8_t { kProgress, kWouldBlock, kTurnIsOver, kEnd };

  Io ReceiveSome();
  Io ReceiveSealed();
  void CountReceived(size_t octets);
  bool TurnIsOver() const;
  void CountSent(size_t octets);
  Io SendSome();
  Io SendMemory();
  Io SendFile(const RecordWriter::FileRange& range);
  Io SendCopy(const RecordWriter::FileRange& range);
  Io SendSealed();
  bool SealSome(Bytes scratch);
  bool ReadFile(const RecordWriter::FileRange& range, Bytes to);
  size_t sealed_octets() const { return tls_ ? tls_->pending() : 0; }
  // Continues after SendSome() has returned `io`.
  static Task<void> SendRest(std::shared_ptr<RecordSocket> self, Io io);

  Loop& loop_;
  asio::ip::tcp::socket socket_;
  Owner* owner_;
  RecordReader reader_;
  RecordWriter writer_;
  std::unique_ptr<tls::Session> tls_;

  bool ended_ = false;    // the socket receives nothing more
  bool drained_ = false;  // the last receipt left nothing in the socket: wait before the next one
  bool closed_ = false;
  bool sending_ = false;   // SendRest() waits for the peer to make room, or for its next turn
  bool batching_ = false;  // a record was taken, and Flush() has not been called since
  bool flush_posted_ = false;
  size_t turn_octets_ = 0;     // see EndsTurn()
  size_t queued_in_turn_ = 0;  // messages
  bool early_flush_due_ = false;
  LoopTurn turn_;

  // For StalledIntervals().
  bool receiving_ = false;  // Receive() waits for the peer
  uint64_t received_ = 0;
  uint64_t received_seen_ = 0;
  uint64_t sent_seen_ = 0;
  bool handshaking_ = false;
  int receive_stalled_ = 0;
  int send_stalled_ = 0;
  int handshake_stalled_ = 0;
};

// Makes the socket non-blocking, disables Nagle's algorithm, and enables keep-alive, which detects a peer that has
// vanished.
void Configure(asio::ip::tcp::socket& socket);

}  // namespace penstock::rpc::tcp
