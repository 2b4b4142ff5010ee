#include "rpc/gss/conjunction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/rpcsec_gss.h"
#include "rpc/gss/test_conjunction.h"

namespace penstock::rpc::gss {
namespace {

using testing::Claimed;
using testing::Copied;
using testing::Framed;
using testing::Octets;

// A token for a context with the handle 11 11 .. 11, from 192.0.2.1 to 192.0.2.9.
constexpr unsigned char kToken[] = {
    0x60, 0x62,                                                  // [APPLICATION 0], 98 octets
    0x06, 0x14,                                                  // the object identifier, 20 octets
    0x69, 0x81, 0xb0, 0xcf, 0xb6, 0xd6, 0xf8, 0xad, 0xa2, 0x8e,  //
    0xb5, 0x8f, 0xf7, 0x8b, 0xa8, 0xeb, 0xc7, 0xee, 0x80, 0x25,  //
    0x00, 0x00, 0x00, 0x34,                                      // claim: 52 octets
    'C',  'C',  'M',  't',  'o',  'k',  'e',  'n',               // label
    0x00, 0x00, 0x00, 0x01,                                      // version
    0x00, 0x00, 0x00, 0x10,                                      // cookie: 16 octets
    0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,  //
    0x00, 0x00, 0x00, 0x07,                                                                          // number
    0x00, 0x00, 0x00, 0x04, 192,  0,    2,    1,                                                     // client
    0x00, 0x00, 0x00, 0x04, 192,  0,    2,    9,                                                     // server
    0x00, 0x00, 0x00, 0x0d,                                                                          // mic: 13 octets
    0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0x00, 0x00, 0x00,
};
ConstBytes Token() { return std::as_bytes(std::span(kToken)); }
ConstBytes Body() { return Token().subspan(24); }

IpAddress Address(const char* text) { return asio::ip::make_address(text); }

TEST(ConjunctionToken, HasTheOctetsOfItsSpecification) {
  const auto body = BodyOfConjunction(Token());
  ASSERT_TRUE(body);
  const auto token = ParseConjunction(*body);
  ASSERT_TRUE(token) << token.error().text;
  EXPECT_EQ(Copied(token->cookie), Octets(16, std::byte{0x11}));
  EXPECT_EQ(token->number, 7u);
  EXPECT_EQ(token->hosts, HostPair(Address("192.0.2.1"), Address("192.0.2.9")));
  EXPECT_EQ(AsText(token->claim.first(8)), "CCMtoken");
  EXPECT_EQ(token->claim.size(), 52u);
  EXPECT_EQ(Copied(token->mic), Octets(13, std::byte{0xaa}));
}

TEST(ConjunctionToken, LeavesTokensOfOtherMechanisms) {
  EXPECT_FALSE(BodyOfConjunction(Framed(OidOf(GssMechanism::kKerberos), Body())));
  EXPECT_FALSE(BodyOfConjunction({}));
  EXPECT_FALSE(BodyOfConjunction(AsBytes("NTLMSSP")));
}

TEST(ConjunctionToken, LeavesTokensWithoutACorrectFrame) {
  for (size_t size = 0; size < Token().size(); ++size) EXPECT_FALSE(BodyOfConjunction(Token().first(size))) << size;
  Octets token = Copied(Token());
  token.push_back(std::byte{0});
  EXPECT_FALSE(BodyOfConjunction(token)) << "octets left over";
  for (const Octets& length :
       {Octets{std::byte{0x80}}, Octets{std::byte{0x81}, std::byte{0x62}},
        Octets{std::byte{0x82}, std::byte{0}, std::byte{0x62}},
        Octets{std::byte{0x83}, std::byte{0}, std::byte{0}, std::byte{0x62}}, Octets{std::byte{0xff}}}) {
    Octets other{std::byte{0x60}};
    other.insert(other.end(), length.begin(), length.end());
    other.insert(other.end(), Token().begin() + 2, Token().end());
    EXPECT_FALSE(BodyOfConjunction(other)) << "a length that is not the shortest form";
  }
}

TEST(ConjunctionToken, AcceptsFramesOfEveryLength) {
  for (const size_t size : {0u, 105u, 106u, 233u, 234u, 60'000u}) {
    const Octets body(size, std::byte{1});
    const Octets token = Framed(OidOf(GssMechanism::kConjunction), body);
    const auto found = BodyOfConjunction(token);
    ASSERT_TRUE(found) << size;
    EXPECT_EQ(found->size(), size);
  }
}

uint32_t ErrorOf(ConstBytes body) {
  const auto token = ParseConjunction(body);
  return token ? kComplete : token.error().major;
}
uint32_t ErrorOf(const Claimed& claimed) {
  const Octets claim = claimed.Encoded();
  return ErrorOf(Claimed::OfXdr(ccm::ccm_token{.claim = ConstBytes(claim), .mic = {}}));
}

TEST(ConjunctionToken, RejectsMalformedBodies) {
  for (size_t size = 0; size < Body().size(); ++size) EXPECT_EQ(ErrorOf(Body().first(size)), kDefectiveToken) << size;
  Octets longer = Copied(Body());
  longer.resize(longer.size() + 4);
  EXPECT_EQ(ErrorOf(longer), kDefectiveToken);
  const Octets claim(513);
  EXPECT_EQ(ErrorOf(Claimed::OfXdr(rpcsecgss::rpc_gss_integ_data{.databody_integ = ConstBytes(claim), .checksum = {}})),
            kDefectiveToken)
      << "a claim that is too long";
}

TEST(ConjunctionToken, RejectsMalformedClaims) {
  const Octets v4(4);
  const Octets v6(16);
  EXPECT_EQ(ErrorOf(Claimed{.cookie = {}, .client = v4, .server = v4}), kComplete);
  EXPECT_EQ(ErrorOf(Claimed{.cookie = Octets(100), .client = v6, .server = v6}), kComplete);
  EXPECT_EQ(ErrorOf(Claimed{.cookie = {}, .client = v4, .server = v4, .label = "CCMreply"}), kDefectiveToken);
  EXPECT_EQ(ErrorOf(Claimed{.cookie = {}, .client = v4, .server = v4, .version = 2}), kDefectiveToken);
  for (const size_t size : {0u, 3u, 5u, 15u}) {
    EXPECT_EQ(ErrorOf(Claimed{.cookie = {}, .client = Octets(size), .server = v4}), kDefectiveToken) << size;
    EXPECT_EQ(ErrorOf(Claimed{.cookie = {}, .client = v4, .server = Octets(size)}), kDefectiveToken) << size;
  }
  const Octets claim = Claimed{.cookie = {}, .client = v4, .server = v4}.Encoded();
  const auto first = ConstBytes(claim).first(claim.size() - 4);
  EXPECT_EQ(ErrorOf(Claimed::OfXdr(ccm::ccm_token{.claim = first, .mic = {}})), kDefectiveToken);
}

TEST(HostPair, IgnoresPortsZonesAndTheMappingOfIpv4) {
  Peer peer;
  peer.address = {Address("::ffff:192.0.2.1"), 700};
  peer.local = {Address("::ffff:192.0.2.9"), 2049};
  const HostPair hosts(Address("192.0.2.1"), Address("192.0.2.9"));
  EXPECT_EQ(HostPair(peer), hosts);
  peer.address = {peer.address.address(), 701};
  EXPECT_EQ(HostPair(peer), hosts);
  EXPECT_NE(HostPair(Address("192.0.2.9"), Address("192.0.2.1")), hosts);
  EXPECT_EQ(HostPair(Address("fe80::1%1"), Address("fe80::2")), HostPair(Address("fe80::1"), Address("fe80::2")));
}

TEST(ChannelProtection, HasEmptyChecksumsAndLeavesTextUnchanged) {
  ChannelProtection channel;
  Mic mic{.room = {}, .size = 9};
  EXPECT_TRUE(channel.GetMic(AsBytes("text"), mic));
  EXPECT_EQ(mic.size, 0u);
  EXPECT_TRUE(channel.VerifyMic(AsBytes("text"), {}));
  EXPECT_FALSE(channel.VerifyMic(AsBytes("text"), AsBytes("x")));
  Octets text = Copied(AsBytes("text"));
  const auto room = channel.RoomToWrap(4);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->before + room->behind, 0u);
  EXPECT_TRUE(channel.Wrap(text, *room));
  EXPECT_EQ(AsText(text), "text");
  const auto unwrapped = channel.Unwrap(text);
  ASSERT_TRUE(unwrapped);
  EXPECT_EQ(unwrapped->data(), text.data());
  EXPECT_EQ(unwrapped->size(), 4u);
}

}  // namespace
}  // namespace penstock::rpc::gss
