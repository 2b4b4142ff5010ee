// The completions of one endpoint, from the provider that adds them to the owner that polls them. The queue also
// decides when the owner is notified: once, and not again before a Poll() has returned less than its caller asked for
// (Endpoint::Start). Every provider has one queue per endpoint, so that this rule stands in one place.
//
// The queue calls nothing by itself. The provider calls Notify() in a turn of its loop, never from inside a call to the
// endpoint. All calls come from that loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "rdma/endpoint.h"
#include "rdma/fifo.h"

namespace penstock::rdma {

// A receive that has its memory.
struct PostedReceive {
  Context context = 0;
  BufferRef buffer;
};

// Makes the completion of a request that is not a receive.
Completion RequestCompletion(Operation operation, Context context, Status status);
// Makes the completion of a receive, with its buffer and no message. The caller adds the length of a message.
Completion ReceiveCompletion(PostedReceive receive, Status status);
// Makes kDisconnected, the last completion of a connection.
Completion DisconnectCompletion(DisconnectReason reason, std::string detail);

class CompletionQueue {
 public:
  // Appends a completion. After Close() this drops the completion.
  void Add(Completion&& completion);
  bool empty() const { return completions_.empty(); }

  // Sets the callback that Notify() calls. Before this the queue only collects.
  void Start(std::function<void()> on_completions);
  bool started() const { return started_; }

  // True if the queue has completions and the owner must be notified of them.
  bool due() const { return armed_ && started_ && !closed_ && !completions_.empty(); }
  // Calls the callback if due().
  void Notify();
  // True while the callback runs.
  bool notifying() const { return notifying_; }

  // Does one turn of the provider's loop: calls Notify(), then `send`, which sends the requests that the owner has
  // posted in the callback. Repeats both while a notification is due, four times at most, so that other connections of
  // the loop get their turn. If due() is true afterwards, the provider needs another turn.
  template <class Function>
  void RunTurn(Function send) {
    for (int round = 0; round < kRoundsPerTurn; ++round) {
      Notify();
      send();
      if (!due()) break;
    }
  }

  // Moves up to out.size() completions to `out` and returns their number. A number below out.size() allows the next
  // notification.
  size_t Poll(std::span<Completion> out);

  // Drops all completions and the callback, because the owner has destroyed its endpoint. If the callback runs at this
  // moment, Notify() drops it when it returns.
  void Close();
  bool closed() const { return closed_; }

 private:
  static constexpr int kRoundsPerTurn = 4;

  Fifo<Completion> completions_;
  std::function<void()> on_completions_;
  bool started_ = false;
  bool armed_ = true;  // the next completion causes a notification
  bool notifying_ = false;
  bool closed_ = false;
};

}  // namespace penstock::rdma
