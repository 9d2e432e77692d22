"""The Wide-ResNet of models/wide_resnet.h in PyTorch."""


def torch_resnet(channels, width, blocks, classes, small_images):
    """Bottleneck blocks whose middle has `width` times their channels; a stem of 3 x 3, or one of 7 x 7 that is pooled."""
    import torch
    from torch import nn

    def conv_norm(inputs, features, window, stride=1):
        return [nn.Conv2d(inputs, features, window, stride, window // 2, bias=False), nn.BatchNorm2d(features)]

    class Block(nn.Module):
        def __init__(self, inputs, c, stride):
            super().__init__()
            relu = nn.ReLU(inplace=True)
            self.branch = nn.Sequential(*conv_norm(inputs, c, 1), relu, *conv_norm(c, c * width, 3, stride), relu,
                                        *conv_norm(c * width, 4 * c, 1))
            same = inputs == 4 * c and stride == 1
            self.shortcut = nn.Sequential(*([] if same else conv_norm(inputs, 4 * c, 1, stride)))

        def forward(self, x):
            return torch.relu(self.shortcut(x) + self.branch(x))

    stem = conv_norm(3, channels, 3) if small_images else conv_norm(3, channels, 7, 2)
    layers, inputs, c = [*stem, nn.ReLU(inplace=True)], channels, channels
    if not small_images:
        layers.append(nn.MaxPool2d(3, 2, 1))
    for group, count in enumerate(blocks):
        for block in range(count):
            layers.append(Block(inputs, c, 2 if group > 0 and block == 0 else 1))
            inputs = 4 * c
        c *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
