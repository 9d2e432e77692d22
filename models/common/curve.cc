// models/common/curve.cc — the losses of a run as CSV and SVG
#include "models/common/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace programs {
namespace {

/// The picture, and the rectangle in it that the curve fills.
constexpr double kWidth = 640, kHeight = 400, kLeft = 70, kRight = 620, kTop = 20, kBottom = 350;

/// Points that the curve has at most: more than the picture has columns show nothing more.
constexpr std::size_t kMostPoints = 2000;

/// Where 0 … 1 of a span lies between two edges of the picture.
double between(double from, double to, double part) { return from + (to - from) * part; }

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

struct Extremes {
  double least = std::numeric_limits<double>::infinity(), largest = -least;
};

Extremes extremes_of(std::span<const double> losses) {
  Extremes e;
  for (double loss : losses)
    if (std::isfinite(loss))
      e.least = std::min(e.least, loss), e.largest = std::max(e.largest, loss);
  return e;
}

/// "x,y x,y …" of the finite losses.
std::string points(std::span<const double> losses, const Extremes& e) {
  const double height = e.largest > e.least ? e.largest - e.least : 1;
  const std::size_t last = std::max<std::size_t>(losses.size(), 2) - 1;
  const std::size_t stride = losses.size() / kMostPoints + 1;
  std::string text;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!std::isfinite(losses[i]) || (i % stride != 0 && i + 1 != losses.size())) continue;
    const double across = static_cast<double>(i) / static_cast<double>(last);
    text += fmt::format("{}{:.1f},{:.1f}", text.empty() ? "" : " ", between(kLeft, kRight, across),
                        between(kBottom, kTop, (losses[i] - e.least) / height));
  }
  return text;
}

}  // namespace

LossLog::LossLog(const std::string& path, std::int64_t first)
    : file_(path, "step,loss,seconds\n"), steps_(first) {}

void LossLog::add(double loss, double seconds) {
  file_.add(fmt::format("{},{},{}\n", ++steps_, loss, seconds));
}

std::string loss_svg(std::span<const double> losses) {
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<path d=\"M{2} {4}V{5}H{3}\" fill=\"none\" stroke=\"black\"/>\n",
      kWidth, kHeight, kLeft, kRight, kTop, kBottom);
  const Extremes e = extremes_of(losses);
  if (e.least <= e.largest) {
    text += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\"/>\n",
        points(losses, e));
    text += label(kLeft - 6, kTop + 5, "end", fmt::format("{:.4g}", e.largest));
    if (e.least < e.largest)
      text += label(kLeft - 6, kBottom + 5, "end", fmt::format("{:.4g}", e.least));
  }
  text += label(kLeft, kBottom + 20, "middle", "1");
  text += label(kRight, kBottom + 20, "middle", fmt::format("{}", losses.size()));
  text += label((kLeft + kRight) / 2, kBottom + 36, "middle", "step");
  text += label(14, (kTop + kBottom) / 2, "start", "loss");
  return text + "</svg>\n";
}

}  // namespace programs
