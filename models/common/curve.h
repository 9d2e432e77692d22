#pragma once
/// The losses of a run as a table and as a picture.
#include <span>
#include <string>

namespace models {

/// CSV: "step,loss,seconds", a line per step.
std::string loss_csv(std::span<const double> losses, std::span<const double> seconds);

/// An SVG of the losses over the steps, with axes from 1 to the last step and from the least to the
/// largest finite loss. Losses that are not finite are left out.
std::string loss_svg(std::span<const double> losses);

}  // namespace models
