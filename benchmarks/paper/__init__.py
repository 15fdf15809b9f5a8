"""The apparatus of Luo & Durrant 2017: its published figures, reasons for differences, its theory."""
