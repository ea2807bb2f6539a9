"""diffusers' UNet2DModel with tensors in and out, for export."""
from diffusers import UNet2DModel


class UNet(UNet2DModel):
    """sample [B, C, S, S], timestep [B] in steps, class_labels [B] -> [B, C, S, S].

    Parameters have diffusers' own names, so its checkpoints fit.
    """

    def forward(self, sample, timestep, class_labels):
        return super().forward(sample, timestep, class_labels, return_dict=False)[0]


def unet_tiny() -> UNet:
    """45 k parameters on 1x8x8, 4 labels: for goldens."""
    return UNet(sample_size=8, in_channels=1, out_channels=1, layers_per_block=1,
                block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=8,
                down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D"), num_class_embeds=4)


def unet_small() -> UNet:
    """1x32x32, 10 labels and 10 for "no class": a UNet that fits in a megabyte."""
    return UNet(sample_size=32, in_channels=1, out_channels=1, layers_per_block=1,
                block_out_channels=(16, 24, 32), norm_num_groups=8, attention_head_dim=16,
                down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D"), num_class_embeds=11)
