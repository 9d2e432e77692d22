#pragma once
/// Difference between two plans, as text.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace alpa {

/// "5.0 ms -> 6.0 ms (+1.0 ms, +20.0 %)", in the words of `text`.
std::string change_text(double before, double after,
                        const std::function<std::string(double)>& text);

/// Two plans of which these are the `plan_numbers`, side by side: seconds, bytes sent, memory and
/// proof of the whole; layouts of tensors and ways to do operators that differ, by class of layers,
/// with the seconds and bytes of a device that this changes.
std::string difference_text(const nlohmann::ordered_json& before,
                            const nlohmann::ordered_json& after);

}  // namespace alpa
