#include "fs/posix/known_handles.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace penstock::fs::posix {
namespace {

constexpr Timestamp kBorn{1000, 123'456'789};
constexpr KnownHandles::Owner kOwner(1);
constexpr Timestamp kLater{1001, 0};

Stat StatFor(uint64_t fileid, std::optional<Timestamp> born = kBorn) {
  Stat stat;
  stat.attributes.fileid = fileid;
  stat.attributes.born = born;
  return stat;
}

Handle HandleNamed(uint8_t number) {
  const std::byte octets[] = {std::byte{number}};
  return *Handle::FromBytes(octets);
}

TEST(KnownHandles, FindTheHandleOfTheSameObject) {
  KnownHandles known;
  EXPECT_FALSE(known.Find(kOwner, StatFor(7)));
  known.Keep(kOwner, StatFor(7), HandleNamed(1), kLater);
  EXPECT_EQ(known.Find(kOwner, StatFor(7)), HandleNamed(1));
  EXPECT_FALSE(known.Find(kOwner, StatFor(8)));
  EXPECT_TRUE(known.MayKnow(kOwner, 7));
  EXPECT_FALSE(known.MayKnow(kOwner, 8));
  EXPECT_FALSE(known.MayKnow(kOwner, 7 + KnownHandles::kPlaces));
}

TEST(KnownHandles, AnExportHasHandlesOfItsOwn) {
  KnownHandles known;
  const KnownHandles::Owner one = known.NewOwner();
  const KnownHandles::Owner another = known.NewOwner();
  known.Keep(one, StatFor(7), HandleNamed(1), kLater);
  EXPECT_FALSE(known.Find(another, StatFor(7)));
  known.Keep(another, StatFor(7), HandleNamed(2), kLater);
  EXPECT_EQ(known.Find(another, StatFor(7)), HandleNamed(2));
  EXPECT_EQ(known.Find(one, StatFor(7)), HandleNamed(1));
}

TEST(KnownHandles, AnObjectThatIsBornLaterWithTheSameNumberIsAnotherOne) {
  KnownHandles known;
  known.Keep(kOwner, StatFor(7), HandleNamed(1), kLater);
  const Timestamp born{1002, 1};
  EXPECT_FALSE(known.Find(kOwner, StatFor(7, born)));
  known.Keep(kOwner, StatFor(7, born), HandleNamed(2), {1003, 0});
  EXPECT_EQ(known.Find(kOwner, StatFor(7, born)), HandleNamed(2));
  EXPECT_FALSE(known.Find(kOwner, StatFor(7)));
}

// Another object may get the number, and the same time of birth, in the same tick of the clock.
TEST(KnownHandles, AnObjectThatWasJustBornIsNotKept) {
  KnownHandles known;
  for (const Timestamp now : {kBorn, Timestamp{1000, 133'000'000}, Timestamp{999, 0}}) {
    known.Keep(kOwner, StatFor(7), HandleNamed(1), now);
    EXPECT_FALSE(known.Find(kOwner, StatFor(7))) << now.seconds << " " << now.nanoseconds;
  }
}

TEST(KnownHandles, ATimeOfWholeHundredthsMayStandForSeconds) {
  KnownHandles known;
  const Timestamp born{1000, 120'000'000};
  known.Keep(kOwner, StatFor(7, born), HandleNamed(1), {1002, 0});
  EXPECT_FALSE(known.Find(kOwner, StatFor(7, born)));
  known.Keep(kOwner, StatFor(7, born), HandleNamed(1), {1004, 0});
  EXPECT_TRUE(known.Find(kOwner, StatFor(7, born)));
}

TEST(KnownHandles, AnObjectWithoutATimeOfBirthIsNotKept) {
  KnownHandles known;
  known.Keep(kOwner, StatFor(7, std::nullopt), HandleNamed(1), kLater);
  EXPECT_FALSE(known.Find(kOwner, StatFor(7, std::nullopt)));
  EXPECT_FALSE(known.Find(kOwner, StatFor(7)));
}

TEST(KnownHandles, TheLastObjectOfAPlaceStays) {
  KnownHandles known;
  known.Keep(kOwner, StatFor(7), HandleNamed(1), kLater);
  known.Keep(kOwner, StatFor(7 + KnownHandles::kPlaces), HandleNamed(2), kLater);
  EXPECT_FALSE(known.Find(kOwner, StatFor(7)));
  EXPECT_EQ(known.Find(kOwner, StatFor(7 + KnownHandles::kPlaces)), HandleNamed(2));
}

}  // namespace
}  // namespace penstock::fs::posix
