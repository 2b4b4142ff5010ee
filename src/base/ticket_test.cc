#include "base/ticket.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

class Pool {
 public:
  void Release(size_t octets) { taken -= octets; }
  void EndCall() { --calls; }

  using OctetsTicket = Ticket<&Pool::Release>;
  using CallTicket = Ticket<&Pool::EndCall>;

  OctetsTicket Take(size_t octets) {
    taken += octets;
    return OctetsTicket(*this, octets);
  }
  CallTicket BeginCall() {
    ++calls;
    return CallTicket(*this);
  }

  size_t taken = 0;
  int calls = 0;
};

TEST(TicketTest, GivesItsShareBackWhenItIsDestroyed) {
  Pool pool;
  {
    const Pool::OctetsTicket octets = pool.Take(100);
    const Pool::CallTicket call = pool.BeginCall();
    EXPECT_EQ(pool.taken, 100u);
    EXPECT_EQ(pool.calls, 1);
  }
  EXPECT_EQ(pool.taken, 0u);
  EXPECT_EQ(pool.calls, 0);
}

TEST(TicketTest, GivesItsShareBackOnlyOnce) {
  Pool pool;
  const Pool::OctetsTicket other = pool.Take(1);
  {
    Pool::OctetsTicket octets = pool.Take(100);
    octets.GiveBack();
    EXPECT_EQ(pool.taken, 1u);
    octets.GiveBack();
  }
  EXPECT_EQ(pool.taken, 1u);
}

TEST(TicketTest, MovesItsShareToAnotherTicket) {
  Pool pool;
  Pool::OctetsTicket kept;
  {
    Pool::OctetsTicket octets = pool.Take(100);
    kept = std::move(octets);
    octets.GiveBack();  // NOLINT(bugprone-use-after-move): a moved ticket holds nothing
  }
  EXPECT_EQ(pool.taken, 100u);
  kept = pool.Take(7);
  EXPECT_EQ(pool.taken, 7u) << "the assignment gave back the share that the ticket held";
  const Pool::OctetsTicket moved(std::move(kept));
  EXPECT_EQ(pool.taken, 7u);
}

TEST(TicketTest, HoldsNothingByDefault) {
  Pool pool;
  {
    Pool::CallTicket none;
    none.GiveBack();
  }
  EXPECT_EQ(pool.calls, 0);
}

}  // namespace
}  // namespace penstock
