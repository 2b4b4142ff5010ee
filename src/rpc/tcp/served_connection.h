// A connection of a TCP server: it receives calls, executes them within the limits of the server, and sends the
// replies. A call may change it into an RDMA connection (rpc/connection_control.h), or begin TLS on it (RFC 9289).
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/signal.h"
#include "base/ticket.h"
#include "metrics/counts.h"
#include "rpc/call_order.h"
#include "rpc/connection_control.h"
#include "rpc/connection_table.h"
#include "rpc/memory_budget.h"
#include "rpc/step_up.h"
#include "rpc/tcp/held_buffers.h"
#include "rpc/tcp/record_socket.h"
#include "rpc/tcp/requester.h"
#include "rpc/tcp/server.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {

// Exists from the acceptance of the connection until its last call and its last reply have ended, or until another
// server takes the connection. Belongs to the loop of its server.
class ServedConnection final : public RecordSocket::Owner, public ConnectionControl {
 public:
  // `loop`, `handler`, `options` and `handshakes` must outlive the connection.
  ServedConnection(Loop& loop, CallHandler& handler, const ServerOptions& options, HandshakeGate& handshakes,
                   asio::ip::tcp::socket socket, Peer peer, std::unique_ptr<ConnectionTable::Place> place);
  ~ServedConnection() override;
  ServedConnection(const ServedConnection&) = delete;
  ServedConnection& operator=(const ServedConnection&) = delete;

  // Receives calls and starts them until the connection ends. Then waits until the last reply has left. If the
  // connection has stepped up, this instead hands the last reply over to ServerOptions::step_up with the socket.
  Task<void> Run();

  // Accepts no more calls. Run() ends when the running calls have ended and their replies have left.
  void Drain();
  // May destroy the connection.
  void Close() { socket_->Close(); }
  int StalledIntervals() { return socket_->StalledIntervals(); }
  // Whether the TLS handshake of the connection is under way.
  bool handshaking() const { return socket_->handshaking(); }
  // See BackChannel::Withdraw().
  void Withdraw(uint32_t credits);
  const Peer& peer() const { return peer_; }
  // Why the connection is about to end, for the counters. The first reason counts.
  void SetEnd(metrics::ConnectionEnd why) {
    if (peer_.counts) peer_.counts->SetEnd(why);
  }

  ConnectionLimits Offer(const ConnectionLimits& asked) const override;
  void Bind(Xid call, const ConnectionLimits& limits) override;
  size_t ReplyRoom(Xid call) const override;
  std::optional<ConnectionLimits> OfferStepUp(Xid call, const ConnectionLimits& asked) const override;
  void StepUp(Xid call, const ConnectionLimits& limits) override;

 private:
  class Back;

  // Closes the socket from the loop. Any thread may call this.
  static void PostClose(Loop& loop, std::weak_ptr<RecordSocket> weak, std::string why);
  // Wakes Run() from the loop. Any thread may call this.
  static void PostChange(Loop& loop, std::weak_ptr<ServedConnection*> weak);

  // Waits until the condition holds. Returns false if the connection accepts no more calls.
  Task<bool> Wait(bool (ServedConnection::*condition)());
  // Returns true if the server may read one more call. Memory for a small call is then reserved.
  bool MayTakeCall();
  // Returns true if the server may receive the large record that has begun. Memory for it is then reserved.
  bool MayTakeRecord();

  // Answers the probe for TLS, and does the handshake that follows. The secured connection is a new one for programs:
  // its number and its back channel are new, so that nothing that came in plain text has an effect on it. Returns false
  // if the connection has ended. It ends if anything but the probe is under way.
  Task<bool> BeginTls(Slice probe);
  bool IsTlsBegin(const Slice& record) const;

  // Whether Run() may accept calls.
  bool accepting() const { return !draining_ && !stepping_; }
  // Returns true if only one call is under way, and nothing else in either direction.
  bool IsQuiet() const;
  // Hands the connection over. Closes it if that is impossible.
  void HandOver();

  void Handle(Slice record);
  // A CallTicket counts a running call and the buffer that holds it. The connection exists until all tickets are given
  // back.
  void EndCall(const Buffer* buffer);
  using CallTicket = Ticket<&ServedConnection::EndCall>;
  CallTicket BeginCall(const Buffer* buffer);
  Task<void> Serve(Slice record, CallTicket ticket);

  // Updates the memory account with the current use of the connection.
  void CountMemory();
  // Marks the connection as idle if no call is running and all replies have left.
  void TellIdle();
  Requester& requester();

  void OnClosed() override;
  void OnSent() override;

  Loop& loop_;
  CallHandler& handler_;
  const ServerOptions& options_;
  HandshakeGate& handshakes_;
  Peer peer_;
  // HandOver() gives these away.
  std::unique_ptr<ConnectionTable::Place> place_;
  std::unique_ptr<MemoryBudget::Account> memory_;
  std::shared_ptr<Back> back_channel_;
  std::shared_ptr<RecordSocket> socket_;
  std::unique_ptr<Requester> requester_;  // made by the first call to the client
  Signal changed_;                        // wakes Run()
  CallOrder order_;
  size_t max_calls_;
  size_t calls_ = 0;
  HeldBuffers held_;            // the buffers of these calls
  size_t record_octets_ = 0;    // memory reserved for the record that is being received
  bool call_admitted_ = false;  // memory for the next call is reserved
  bool waiting_ = false;        // Run() waits and reads no calls
  bool draining_ = false;
  std::optional<ConnectionLimits> stepping_;  // set by StepUp()
  Message last_reply_;                        // the reply to the call that has stepped up
  // For functions that other threads post to the loop of the server.
  const std::shared_ptr<ServedConnection*> self_ = std::make_shared<ServedConnection*>(this);
};

}  // namespace penstock::rpc::tcp
